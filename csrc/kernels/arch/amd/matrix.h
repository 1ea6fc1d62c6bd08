// MFMA 16x16x16 (CDNA2 and CDNA3 ISA guides). Never for Hygon chips: the builtins compile for them, but
// the instruction faults.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_MATRIX_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_MATRIX_H_

#include <type_traits>

#include "detail/fma_unit.h"
#include "detail/fragment.h"
#include "detail/numeric.h"

namespace hygon_backend::arch {

#if (defined(__gfx90a__) || defined(__gfx942__)) && !defined(HYGON_TARGET_HCU)

// The instruction has rows of its result spread over registers and columns over lanes, so the column
// operand goes first: the result comes out transposed, with a row of ours in one lane index.
struct MatrixUnit {
  static constexpr int kQuarterStep = kTile;

  __device__ static __forceinline__ int Index(int lane, int /*j*/) { return lane % kTile; }
  __device__ static __forceinline__ int Quarter(int lane) { return lane / kTile; }
  __device__ static __forceinline__ int ResultColumn(int quarter, int i) { return quarter * 4 + i; }

  template <class T>
  __device__ static __forceinline__ void MultiplyAdd(Tile& tile, const Operand& rows,
                                                     const Operand& columns) {
    using Floats = float __attribute__((ext_vector_type(4)));
    auto accumulator = BitCast<Floats>(tile);
    if constexpr (std::is_same_v<T, BFloat16>) {
      using Bits = short __attribute__((ext_vector_type(4)));
      accumulator = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(BitCast<Bits>(columns), BitCast<Bits>(rows),
                                                              accumulator, 0, 0, 0);
    } else {
      static_assert(std::is_same_v<T, Float16>);
      using Halves = _Float16 __attribute__((ext_vector_type(4)));
      accumulator = __builtin_amdgcn_mfma_f32_16x16x16f16(BitCast<Halves>(columns), BitCast<Halves>(rows),
                                                          accumulator, 0, 0, 0);
    }
    tile = BitCast<Tile>(accumulator);
  }
};

#else

// gfx906, and the host's pass over the source. A type of its own, since the host finds kernels by name and
// the unit is part of theirs: an alias would make it look for kernels of FmaUnit.
struct MatrixUnit : FmaUnit {};

#endif

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_AMD_MATRIX_H_
