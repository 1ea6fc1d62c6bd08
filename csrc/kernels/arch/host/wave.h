// Wave-64 exchange by the emulator.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_WAVE_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_WAVE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

namespace hygon_backend::arch {

constexpr int kWaveWidth = emulation::kWaveWidth;

inline float ShuffleXor(float value, int mask) {
  return emulation::Exchange(value)[emulation::Lane() ^ mask];
}

inline std::uint32_t Shuffle(std::uint32_t value, int lane) { return emulation::Exchange(value)[lane]; }

inline bool AnyLane(bool mine) {
  const bool* all = emulation::Exchange(mine);
  for (int lane = 0; lane < kWaveWidth; ++lane) {
    if (all[lane]) return true;
  }
  return false;
}

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_WAVE_H_
