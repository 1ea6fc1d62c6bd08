// Conversions for which a chip has instructions: half to float and back, moves between halves of words,
// powers of two. Without them (the host's code, and what a chip or its compiler lacks) plain integer
// arithmetic and the maths library do.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_CONVERT_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_CONVERT_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "detail/bits.h"

namespace hygon_backend::arch {

__host__ __device__ __forceinline__ float HalfToFloat(std::uint16_t bits) {
#if defined(__HIP_DEVICE_COMPILE__)
  return static_cast<float>(BitCast<_Float16>(bits));
#elif defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return WidenHalf(bits);
#endif
}

// To nearest, ties to even.
__host__ __device__ __forceinline__ std::uint16_t FloatToHalf(float value) {
#if defined(__HIP_DEVICE_COMPILE__)
  return BitCast<std::uint16_t>(static_cast<_Float16>(value));
#elif defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return NarrowToHalf(value);
#endif
}

// Two floats as two halves of a word, the first one low.
__host__ __device__ __forceinline__ std::uint32_t FloatsToHalves(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return FloatToHalf(low) | static_cast<std::uint32_t>(FloatToHalf(high)) << 16;
#endif
}

// The same in bfloat16.
__host__ __device__ __forceinline__ std::uint32_t FloatsToBFloats(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return NarrowToBFloat(low) | static_cast<std::uint32_t>(NarrowToBFloat(high)) << 16;
#endif
}

// The low (0) or high (1) halves of two words, as one word.
template <int kHalf>
__device__ __forceinline__ std::uint32_t Zip(std::uint32_t first, std::uint32_t second) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(first, second, kHalf == 0 ? 0x5410 : 0x7632);
#else
  return kHalf == 0 ? (first & 0xffffU) | (second << 16) : (first >> 16) | (second & 0xffff0000U);
#endif
}

// Compilers of one chip's vendor may lack builtins that LLVM has.
#if defined(__HIP_DEVICE_COMPILE__) && defined(__has_builtin)
#if __has_builtin(__builtin_amdgcn_exp2f) && __has_builtin(__builtin_amdgcn_rcpf)
#define HYGON_HAS_AMDGCN_MATHS 1
#endif
#endif

// 2^x to about 2 ulp. Results below the smallest normal number may come out as 0.
__device__ __forceinline__ float Exp2(float x) {
#if defined(HYGON_HAS_AMDGCN_MATHS)
  return __builtin_amdgcn_exp2f(x);
#elif defined(__CUDA_ARCH__)
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
#else
  return exp2f(x);
#endif
}

// 1 / x to about 1 ulp; 0 for infinity.
__device__ __forceinline__ float Reciprocal(float x) {
#if defined(HYGON_HAS_AMDGCN_MATHS)
  return __builtin_amdgcn_rcpf(x);
#elif defined(__CUDA_ARCH__)
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
#else
  return 1.0F / x;
#endif
}

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_CONVERT_H_
