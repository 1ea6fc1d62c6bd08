// Holding register use down where the compiler alone spills to scratch memory. Nothing here changes what a
// kernel computes; docs/amd_resources.md shows what it does to the registers.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_REGISTERS_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_REGISTERS_H_

#include <hip/hip_runtime.h>

// Launch bounds of a kernel that multiplies on the matrix unit. Told that a SIMD is to hold two waves, the
// compiler has 256 registers a lane and keeps MFMA's accumulators among the VGPRs; with 512 it moves them to
// AGPRs and back and needs half as many registers again. gfx906 would be cut to 128.
#if defined(__gfx90a__) || defined(__gfx942__)
#define HYGON_MATRIX_LAUNCH_BOUNDS(threads) __launch_bounds__(threads, 2)
#else
#define HYGON_MATRIX_LAUNCH_BOUNDS(threads) __launch_bounds__(threads)
#endif

namespace hygon_backend {

// Returns `value` in a way that keeps what is derived from it inside the loop: hoisted out of it, the
// derived values would each occupy a register all the way through.
__device__ __forceinline__ int KeepInLoop(int value) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(value));
#endif
  return value;
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_REGISTERS_H_
