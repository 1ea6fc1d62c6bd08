// Exchange between the lanes of an NVIDIA warp.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_WAVE_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_WAVE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

namespace hygon_backend::arch {

constexpr int kWaveWidth = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ float ShuffleXor(float value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}

__device__ __forceinline__ std::uint32_t Shuffle(std::uint32_t value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

__device__ __forceinline__ bool AnyLane(bool mine) { return __any_sync(kAllLanes, mine) != 0; }

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_WAVE_H_
