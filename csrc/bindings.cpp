// The Python module hygon_backend._C. Kernels and cache know nothing of Python: what translates
// between the two lives here and in bindings_*.cpp, one file a kernel and one for the cache.
#include <pybind11/pybind11.h>

#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS
#include "bindings_kernels.h"
#include "kernels/wave_probe.h"
#endif

// The tests build the same module a second time, over emulated kernels, under a name of its own and without
// the cache.
#ifndef HYGON_MODULE_NAME
#define HYGON_MODULE_NAME _C
#define HYGON_HAS_CACHE 1
#include "bindings_cache.h"
#endif

namespace py = pybind11;

namespace hygon_backend {
namespace {

// __cplusplus is 201703L for C++17: the two digits after the century name the standard.
constexpr int kCxxStandard = __cplusplus / 100 % 100;

template <typename Strings>
py::list ToList(const Strings& strings) {
  py::list list;
  for (const auto& string : strings) list.append(string);
  return list;
}

py::dict BuildInfo() {
  py::dict info;
  info["version"] = build::kVersion;
  info["target"] = build::kTarget;
  info["archs"] = ToList(build::kArchs);
  info["compiler"] = build::kCompiler;
  info["cxx_standard"] = kCxxStandard;
  info["kernels"] = ToList(build::kKernels);
  info["note"] = build::kNote;
  return info;
}

}  // namespace
}  // namespace hygon_backend

PYBIND11_MODULE(HYGON_MODULE_NAME, module) {
  module.doc() = "Native part of hygon_backend.";
  module.def("build_info", &hygon_backend::BuildInfo, "How this module was built.");
#if HYGON_HAS_CACHE
  hygon_backend::BindCache(module);
#endif
#if HYGON_HAS_DEVICE_KERNELS
  module.def("probe_wave_width", &hygon_backend::ProbeWaveWidth, py::call_guard<py::gil_scoped_release>(),
             "Number of lanes in a wave of the current device, as seen by a kernel.");
  hygon_backend::BindFragmentProbe(module);
  hygon_backend::BindKvCache(module);
  hygon_backend::BindMergeStates(module);
  hygon_backend::BindPagedDecode(module);
  hygon_backend::BindPrefixPrefill(module);
#endif
}
