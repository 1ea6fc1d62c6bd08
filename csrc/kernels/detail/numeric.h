// The element types that caches and queries hold, as raw bits, and their conversions.
//
// Raw bits rather than a compiler's own types: every target spells half differently, the host compiler has
// none, and kernels move these elements far more often than they calculate with them.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "arch/convert.h"
#include "bits.h"

namespace hygon_backend {

struct Float32 {
  float value;
};
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
// OCP e4m3 without infinities: 448 is the largest value, 0x7f and 0xff are NaN.
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

__host__ __device__ __forceinline__ float ToFloat(Float32 x) { return x.value; }

__host__ __device__ __forceinline__ float ToFloat(BFloat16 x) {
  return BitCast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

__host__ __device__ __forceinline__ float ToFloat(Float16 x) { return arch::HalfToFloat(x.bits); }

__host__ __device__ __forceinline__ float ToFloat(Float8E4M3 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x80U) << 24;
  const std::uint32_t magnitude = x.bits & 0x7fU;
  const float scaled = BitCast<float>(magnitude << 20) * 0x1p120F;
  const std::uint32_t bits = magnitude == 0x7fU ? 0x7fc00000U : BitCast<std::uint32_t>(scaled);
  return BitCast<float>(sign | bits);
}

__host__ __device__ __forceinline__ float ToFloat(Float8E5M2 x) {
  // e5m2 is the upper half of a half.
  return ToFloat(Float16{static_cast<std::uint16_t>(x.bits << 8)});
}

// Conversion from float rounds to nearest, ties to even, and keeps NaN.
template <class T>
__host__ __device__ T FromFloat(float value);

template <>
__host__ __device__ __forceinline__ Float32 FromFloat<Float32>(float value) {
  return {value};
}

template <>
__host__ __device__ __forceinline__ BFloat16 FromFloat<BFloat16>(float value) {
  return {NarrowToBFloat(value)};
}

template <>
__host__ __device__ __forceinline__ Float16 FromFloat<Float16>(float value) {
  return {arch::FloatToHalf(value)};
}

// fp8 saturates to the largest finite value, infinities included: one overflow stored as NaN or infinity
// would spoil every later token of its sequence. Either format has a NaN of all ones.
__host__ __device__ __forceinline__ std::uint8_t NarrowToFloat8(float value, int exponent_bias,
                                                                int mantissa_bits, std::uint32_t largest) {
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kFloatSign;
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  if (magnitude > kFloatInfinity) return static_cast<std::uint8_t>(sign | 0x7fU);
  const std::uint32_t rounded = RoundMagnitude(magnitude, exponent_bias, mantissa_bits);
  return static_cast<std::uint8_t>(sign | (rounded < largest ? rounded : largest));
}

template <>
__host__ __device__ __forceinline__ Float8E4M3 FromFloat<Float8E4M3>(float value) {
  return {NarrowToFloat8(value, 7, 3, 0x7eU)};
}

template <>
__host__ __device__ __forceinline__ Float8E5M2 FromFloat<Float8E5M2>(float value) {
  return {NarrowToFloat8(value, 15, 2, 0x7bU)};
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_
