// How kernels declare LDS ("shared memory").
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_

#include <hip/hip_runtime.h>

#include "launch_check.h"

// HYGON_SHARED(type, name, count) declares `type name[count]` in the block's LDS, aligned for 16-byte
// accesses. It holds garbage at first. A type with a comma in its name needs an alias.
// The host emulation brings its own, which the plain keyword would not let it hook into.
#ifndef HYGON_SHARED
#define HYGON_SHARED(type, name, count) __shared__ __attribute__((aligned(16))) type name[count]
#endif

// The same for what may be more than a target lets kernels declare. The launch asks LargeSharedBytes for how
// much of it to pass as the kernel's dynamic LDS. At most one a kernel.
#if defined(__CUDACC__)
#define HYGON_LARGE_SHARED(type, name, count)                                  \
  extern __shared__ __attribute__((aligned(16))) unsigned char large_shared[]; \
  type* const name = reinterpret_cast<type*>(large_shared)
#else
#define HYGON_LARGE_SHARED(type, name, count) HYGON_SHARED(type, name, count)
#endif

namespace hygon_backend {

// Bytes of dynamic LDS to launch `kernel` with, which declares `bytes` as HYGON_LARGE_SHARED.
template <class Kernel>
unsigned LargeSharedBytes([[maybe_unused]] Kernel* kernel, [[maybe_unused]] int bytes) {
#if defined(__CUDACC__)
  // What any launch may ask for.
  constexpr int kUnasked = 48 * 1024;
  if (bytes <= kUnasked) return static_cast<unsigned>(bytes);
  CheckHip(hipFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               hipFuncAttributeMaxDynamicSharedMemorySize, bytes),
           "hipFuncSetAttribute");
  return static_cast<unsigned>(bytes);
#else
  return 0;
#endif
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_
