// Copies from global memory to LDS that pass no register, where a chip has them.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_COPIES_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_COPIES_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "detail/words.h"

namespace hygon_backend::arch {

#if defined(__CUDACC__)
constexpr bool kHasAsyncCopies = true;
#else
constexpr bool kHasAsyncCopies = false;
#endif

// Copies 16 bytes, or writes zeros where not `live`. Done after the next WaitForCopies at the latest.
__device__ __forceinline__ void CopyToShared(Words<4>* to, const void* from, bool live) {
#if defined(__CUDA_ARCH__)
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(live ? 16 : 0)
               : "memory");
#else
  *to = live ? *static_cast<const Words<4>*>(from) : Words<4>{};
#endif
}

__device__ __forceinline__ void WaitForCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_COPIES_H_
