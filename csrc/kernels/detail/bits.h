// Floating-point formats as bits, for code that must give the same bits on every target.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_BITS_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_BITS_H_

#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstring>

namespace hygon_backend {

template <class To, class From>
__host__ __device__ __forceinline__ To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

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

__host__ __device__ __forceinline__ float WidenHalf(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) {
    return BitCast<float>(sign | kFloatInfinity | ((magnitude & 0x3ffU) << 13));
  }
  // 2^112 moves the exponent from half's bias to float's, for subnormals too.
  const float scaled = BitCast<float>(magnitude << 13) * 0x1p112F;
  return BitCast<float>(sign | BitCast<std::uint32_t>(scaled));
}

__host__ __device__ __forceinline__ std::uint16_t NarrowToHalf(float value) {
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kFloatSign;
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  if (magnitude > kFloatInfinity) return static_cast<std::uint16_t>(sign | 0x7e00U);
  const std::uint32_t rounded = RoundMagnitude(magnitude, 15, 10);
  return static_cast<std::uint16_t>(sign | (rounded < 0x7c00U ? rounded : 0x7c00U));
}

__host__ __device__ __forceinline__ std::uint16_t NarrowToBFloat(float value) {
  const std::uint32_t bits = BitCast<std::uint32_t>(value);
  if ((bits & ~kFloatSign) > kFloatInfinity) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_BITS_H_
