// The parts of the Python module that need device kernels, one function a source file.
#ifndef HYGON_BACKEND_CSRC_BINDINGS_KERNELS_H_
#define HYGON_BACKEND_CSRC_BINDINGS_KERNELS_H_

#include <pybind11/pybind11.h>

namespace hygon_backend {

void BindFragmentProbe(pybind11::module_& module);
void BindKvCache(pybind11::module_& module);
void BindMergeStates(pybind11::module_& module);
void BindPagedDecode(pybind11::module_& module);
void BindPrefixPrefill(pybind11::module_& module);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_BINDINGS_KERNELS_H_
