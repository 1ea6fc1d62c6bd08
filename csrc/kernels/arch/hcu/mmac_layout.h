// Where the lanes of a wave hold an MMAC result. Apart from the instruction itself, so that the host
// emulation can run kernels with either.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MMAC_LAYOUT_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MMAC_LAYOUT_H_

#include "detail/fragment.h"

namespace hygon_backend::arch {

// Both layouts: operands as MFMA takes them, result rows over lanes.
struct MmacOperands {
  static constexpr int kQuarterStep = kTile;

  __device__ static __forceinline__ int Index(int lane, int /*j*/) { return lane % kTile; }
  __device__ static __forceinline__ int Quarter(int lane) { return lane / kTile; }
};

// gfx926, gfx928, gfx936: register i holds column quarter + 4 * i.
struct MmacLayout1 : MmacOperands {
  __device__ static __forceinline__ int ResultColumn(int quarter, int i) { return quarter + i * kQuarters; }
};

// gfx938: two neighbouring columns in the registers of a pair, as if two 8-column halves interleaved.
struct MmacLayout2 : MmacOperands {
  __device__ static __forceinline__ int ResultColumn(int quarter, int i) {
    return i / 2 * (kTile / 2) + quarter * 2 + i % 2;
  }
};

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MMAC_LAYOUT_H_
