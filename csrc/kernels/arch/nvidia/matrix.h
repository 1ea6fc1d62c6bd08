// Tensor cores by mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"); two make a tile.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_MATRIX_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_MATRIX_H_

#include <type_traits>

#include "detail/fragment.h"
#include "detail/numeric.h"

namespace hygon_backend::arch {

struct MatrixUnit {
  static constexpr int kQuarterStep = 1;

  __device__ static __forceinline__ int Index(int lane, int j) { return lane / kQuarters + j * kLaneIndices; }
  __device__ static __forceinline__ int Quarter(int lane) { return lane % kQuarters; }
  // A lane has two neighbouring columns of either half.
  __device__ static __forceinline__ int ResultColumn(int quarter, int i) {
    return i / 2 * kLaneIndices + quarter * 2 + i % 2;
  }

  template <class T>
  __device__ static __forceinline__ void MultiplyAdd(Tile& tile, const Operand& rows,
                                                     const Operand& columns) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& c0 = tile.values[0][half * 2];
      float& c1 = tile.values[0][half * 2 + 1];
      float& c2 = tile.values[1][half * 2];
      float& c3 = tile.values[1][half * 2 + 1];
      if constexpr (std::is_same_v<T, BFloat16>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
            : "r"(rows.Word(0, 0)), "r"(rows.Word(1, 0)), "r"(rows.Word(0, 1)), "r"(rows.Word(1, 1)),
              "r"(columns.Word(half, 0)), "r"(columns.Word(half, 1)));
      } else {
        static_assert(std::is_same_v<T, Float16>);
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
            : "r"(rows.Word(0, 0)), "r"(rows.Word(1, 0)), "r"(rows.Word(0, 1)), "r"(rows.Word(1, 1)),
              "r"(columns.Word(half, 0)), "r"(columns.Word(half, 1)));
      }
    }
  }
};

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_MATRIX_H_
