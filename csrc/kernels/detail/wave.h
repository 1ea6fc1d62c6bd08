// The wave: its width, a lane's place in it, and exchange between lanes.
//
// Blocks of this project's kernels are one-dimensional, and their threads come in whole waves.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_WAVE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_WAVE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#if defined(HYGON_EMULATION)
#include "arch/host/wave.h"
#elif defined(__CUDACC__)
#include "arch/nvidia/wave.h"
#else
#include "arch/amd/wave.h"
#endif

namespace hygon_backend {

using arch::AnyLane;
using arch::kWaveWidth;
using arch::Shuffle;
using arch::ShuffleXor;

static_assert(kWaveWidth == 32 || kWaveWidth == 64, "tiles are laid out for waves of 32 and of 64 lanes");

__device__ __forceinline__ int LaneIndex() { return static_cast<int>(threadIdx.x) % kWaveWidth; }
__device__ __forceinline__ int WaveIndex() { return static_cast<int>(threadIdx.x) / kWaveWidth; }

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_WAVE_H_
