// Lets a C++ compiler build the HIP kernel sources for the CPU, where each thread of a block is a fiber
// and a wave has 64 lanes. It is found in place of the real <hip/hip_runtime.h> through the include path
// of the host target.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_HIP_HIP_RUNTIME_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_HIP_HIP_RUNTIME_H_

// Says so to headers that differ between targets.
#define HYGON_EMULATION 1

#include <math.h>

#include "../atomics.h"
#include "../dim3.h"
#include "../emulation.h"
#include "../launch.h"
#include "../lds.h"
#include "../runtime.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))

// A static would keep its values from block to block and hide its overruns from AddressSanitizer.
#define __shared__ static_assert(false, "declare LDS with HYGON_SHARED of detail/shared.h");

#define threadIdx (::hygon_backend::emulation::CurrentThread().index)
#define blockIdx (::hygon_backend::emulation::CurrentThread().position->block_index)
#define blockDim (::hygon_backend::emulation::CurrentThread().position->block_dim)
#define gridDim (::hygon_backend::emulation::CurrentThread().position->grid_dim)

constexpr int warpSize = ::hygon_backend::emulation::kWaveWidth;

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::hygon_backend::emulation::BlockBarrier(file, line);
}

#define hipLaunchKernelGGL(kernel, grid, block, shared_bytes, stream, ...) \
  ::hygon_backend::emulation::Launcher((kernel), (grid), (block), (shared_bytes), (stream))(__VA_ARGS__)

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_HIP_HIP_RUNTIME_H_
