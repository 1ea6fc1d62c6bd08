// Exchange between the lanes of a wave of 64, on AMD and Hygon chips alike.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_WAVE_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_WAVE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

namespace hygon_backend::arch {

constexpr int kWaveWidth = 64;

__device__ __forceinline__ float ShuffleXor(float value, int mask) {
  return __shfl_xor(value, mask, kWaveWidth);
}

__device__ __forceinline__ std::uint32_t Shuffle(std::uint32_t value, int lane) {
  return static_cast<std::uint32_t>(__shfl(static_cast<int>(value), lane, kWaveWidth));
}

__device__ __forceinline__ bool AnyLane(bool mine) { return __any(mine) != 0; }

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_WAVE_H_
