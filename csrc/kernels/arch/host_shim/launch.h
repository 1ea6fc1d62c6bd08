#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LAUNCH_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LAUNCH_H_

#include <cstddef>
#include <tuple>

#include "dim3.h"

namespace hygon_backend::emulation {

// A kernel with its arguments, the types forgotten.
struct KernelCall {
  void (*run)(const void* arguments);
  const void* arguments;
};

// Runs the call for every thread of the grid, and returns when all are done. A launch that the machine
// would refuse runs nothing and leaves an error for hipGetLastError.
void Launch(const KernelCall& call, dim3 grid, dim3 block, std::size_t dynamic_lds_bytes);

// Holds a launch until its arguments come, which are evaluated and converted once, not once a thread.
template <class... Parameters>
class Launcher {
 public:
  using Kernel = void (*)(Parameters...);

  Launcher(Kernel kernel, dim3 grid, dim3 block, std::size_t dynamic_lds_bytes, const void* /*stream*/)
      : kernel_(kernel), grid_(grid), block_(block), dynamic_lds_bytes_(dynamic_lds_bytes) {}

  void operator()(Parameters... arguments) const {
    const Bound bound = {kernel_, {arguments...}};
    Launch({&Launcher::Run, &bound}, grid_, block_, dynamic_lds_bytes_);
  }

 private:
  struct Bound {
    Kernel kernel;
    std::tuple<Parameters...> arguments;
  };

  static void Run(const void* bound) {
    const auto& [kernel, arguments] = *static_cast<const Bound*>(bound);
    std::apply(kernel, arguments);
  }

  Kernel kernel_;
  dim3 grid_;
  dim3 block_;
  std::size_t dynamic_lds_bytes_;
};

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LAUNCH_H_
