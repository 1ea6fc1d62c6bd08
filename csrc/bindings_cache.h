// The part of the Python module that every build has: the cache core.
#ifndef HYGON_BACKEND_CSRC_BINDINGS_CACHE_H_
#define HYGON_BACKEND_CSRC_BINDINGS_CACHE_H_

#include <pybind11/pybind11.h>

namespace hygon_backend {

void BindCache(pybind11::module_& module);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_BINDINGS_CACHE_H_
