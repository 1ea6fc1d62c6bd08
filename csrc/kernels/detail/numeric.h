// The element types that caches and queries hold, as raw bits, and their conversions.
//
// Raw bits rather than a compiler's own types: every target spells half differently, the host compiler has
// none, and kernels move these elements far more often than they calculate with them.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_

#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstring>

#include "element_type.h"

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

template <class To, class From>
__host__ __device__ __forceinline__ To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

namespace detail {

constexpr std::uint32_t kFloatSign = 0x80000000U;
constexpr std::uint32_t kFloatInfinity = 0x7f800000U;

// Rounds a finite or infinite magnitude (sign bit clear) to a smaller format, to nearest, ties to even.
// The result is the format's bits; an overflow gives the first pattern past its largest value or more.
__host__ __device__ __forceinline__ std::uint32_t RoundMagnitude(std::uint32_t magnitude, int exponent_bias,
                                                                 int mantissa_bits) {
  const int shift = 23 - mantissa_bits;
  const std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - exponent_bias) << 23;
  if (magnitude < smallest_normal) {
    // Adding this power of two leaves the subnormal's bits, rounded by the adder, at the bottom.
    const std::uint32_t magic = static_cast<std::uint32_t>(128 - exponent_bias + shift) << 23;
    const float sum = BitCast<float>(magnitude) + BitCast<float>(magic);
    return BitCast<std::uint32_t>(sum) - magic;
  }
  const std::uint32_t rebias = static_cast<std::uint32_t>(127 - exponent_bias) << 23;
  const std::uint32_t half_less_one = (1U << (shift - 1)) - 1;
  const std::uint32_t odd = (magnitude >> shift) & 1U;
  return (magnitude - rebias + half_less_one + odd) >> shift;
}

}  // namespace detail

__host__ __device__ __forceinline__ float ToFloat(Float32 x) { return x.value; }

__host__ __device__ __forceinline__ float ToFloat(BFloat16 x) {
  return BitCast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

__host__ __device__ __forceinline__ float ToFloat(Float16 x) {
#if defined(__HIP_DEVICE_COMPILE__)
  return static_cast<float>(BitCast<_Float16>(x.bits));
#elif defined(__CUDA_ARCH__)
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffU;
  if (magnitude >= 0x7c00U) {
    return BitCast<float>(sign | detail::kFloatInfinity | ((magnitude & 0x3ffU) << 13));
  }
  // 2^112 moves the exponent from half's bias to float's, for subnormals too.
  const float scaled = BitCast<float>(magnitude << 13) * 0x1p112F;
  return BitCast<float>(sign | BitCast<std::uint32_t>(scaled));
#endif
}

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
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  if ((bits & ~detail::kFloatSign) > detail::kFloatInfinity) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

template <>
__host__ __device__ __forceinline__ Float16 FromFloat<Float16>(float value) {
#if defined(__HIP_DEVICE_COMPILE__)
  return {BitCast<std::uint16_t>(static_cast<_Float16>(value))};
#elif defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#else
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~detail::kFloatSign;
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  if (magnitude > detail::kFloatInfinity) {
    return {static_cast<std::uint16_t>(sign | 0x7e00U)};
  }
  const std::uint32_t rounded = detail::RoundMagnitude(magnitude, 15, 10);
  return {static_cast<std::uint16_t>(sign | (rounded < 0x7c00U ? rounded : 0x7c00U))};
#endif
}

// fp8 saturates to the largest finite value, infinities included: one overflow stored as NaN or infinity
// would spoil every later token of its sequence.
template <>
__host__ __device__ __forceinline__ Float8E4M3 FromFloat<Float8E4M3>(float value) {
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~detail::kFloatSign;
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  if (magnitude > detail::kFloatInfinity) return {static_cast<std::uint8_t>(sign | 0x7fU)};
  const std::uint32_t rounded = detail::RoundMagnitude(magnitude, 7, 3);
  return {static_cast<std::uint8_t>(sign | (rounded < 0x7eU ? rounded : 0x7eU))};
}

template <>
__host__ __device__ __forceinline__ Float8E5M2 FromFloat<Float8E5M2>(float value) {
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~detail::kFloatSign;
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  if (magnitude > detail::kFloatInfinity) return {static_cast<std::uint8_t>(sign | 0x7fU)};
  const std::uint32_t rounded = detail::RoundMagnitude(magnitude, 15, 2);
  return {static_cast<std::uint8_t>(sign | (rounded < 0x7bU ? rounded : 0x7bU))};
}

// The number of a type in `ElementType`, for the launchers' dispatch.
template <class T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<Float32> {
  static constexpr ElementType value = ElementType::kFloat32;
};
template <>
struct ElementTypeOf<Float16> {
  static constexpr ElementType value = ElementType::kFloat16;
};
template <>
struct ElementTypeOf<BFloat16> {
  static constexpr ElementType value = ElementType::kBFloat16;
};
template <>
struct ElementTypeOf<Float8E4M3> {
  static constexpr ElementType value = ElementType::kFloat8E4M3;
};
template <>
struct ElementTypeOf<Float8E5M2> {
  static constexpr ElementType value = ElementType::kFloat8E5M2;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_NUMERIC_H_
