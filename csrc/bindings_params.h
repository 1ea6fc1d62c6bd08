// Binds a params struct of the kernels as a Python class of settable fields.
#ifndef HYGON_BACKEND_CSRC_BINDINGS_PARAMS_H_
#define HYGON_BACKEND_CSRC_BINDINGS_PARAMS_H_

#include <pybind11/pybind11.h>

#include <cstdint>

namespace hygon_backend {

template <class Params>
class ParamsClass {
 public:
  // Local to its module, since the device module and the emulation may be loaded side by side.
  ParamsClass(pybind11::module_& module, const char* name) : class_(module, name, pybind11::module_local()) {
    class_.def(pybind11::init<>());
  }

  // `Owner` is Params or a base of it.
  template <class Owner, class Value>
  ParamsClass& Field(const char* name, Value Owner::* member) {
    class_.def_readwrite(name, member);
    return *this;
  }

  // Python passes an address as an integer; 0 is null.
  template <class Owner, class Target>
  ParamsClass& Pointer(const char* name, Target* Owner::* member) {
    class_.def_property(
        name, [member](const Params& params) { return reinterpret_cast<std::uintptr_t>(params.*member); },
        [member](Params& params, std::uintptr_t address) {
          params.*member = reinterpret_cast<Target*>(address);
        });
    return *this;
  }

  template <class Owner, class Enumeration>
  ParamsClass& Enum(const char* name, Enumeration Owner::* member) {
    class_.def_property(
        name, [member](const Params& params) { return static_cast<int>(params.*member); },
        [member](Params& params, int number) { params.*member = static_cast<Enumeration>(number); });
    return *this;
  }

 private:
  pybind11::class_<Params> class_;
};

// Defines `name(params, stream)`, the stream as an integer, for a function that enqueues work.
template <class Params>
void DefineCall(pybind11::module_& module, const char* name, void (*function)(const Params&, void*),
                const char* doc) {
  module.def(
      name,
      [function](const Params& params, std::uintptr_t stream) {
        function(params, reinterpret_cast<void*>(stream));
      },
      pybind11::arg("params"), pybind11::arg("stream"), pybind11::call_guard<pybind11::gil_scoped_release>(),
      doc);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_BINDINGS_PARAMS_H_
