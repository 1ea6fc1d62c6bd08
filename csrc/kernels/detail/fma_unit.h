// Tile products without a matrix unit: lanes fetch each other's operands and multiply. For chips that have
// none (gfx906), and for a card whose matrix unit does not hold its fragments as this build assumes.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_FMA_UNIT_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_FMA_UNIT_H_

#include "fragment.h"
#include "numeric.h"

namespace hygon_backend {

struct FmaUnit {
  static constexpr int kQuarterStep = 1;

  __device__ static __forceinline__ int Index(int lane, int j) { return lane / kQuarters + j * kLaneIndices; }
  __device__ static __forceinline__ int Quarter(int lane) { return lane % kQuarters; }
  __device__ static __forceinline__ int ResultColumn(int quarter, int i) { return quarter * 4 + i; }

  template <class T>
  __device__ static __forceinline__ void MultiplyAdd(Tile& tile, const Operand& rows,
                                                     const Operand& columns) {
    const int lane = LaneIndex();
    const int quarter = Quarter(lane);
    // Unrolled, the fetches of all quarters would be in flight at once, in more registers than there are.
#pragma unroll 1
    for (int source_quarter = 0; source_quarter < kQuarters; ++source_quarter) {
      std::uint32_t row_words[kIndices][2];
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        // The lane with this lane's row indices and the contraction elements of another quarter.
        const int source = lane - quarter + source_quarter;
        row_words[j][0] = Shuffle(rows.Word(j, 0), source);
        row_words[j][1] = Shuffle(rows.Word(j, 1), source);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = ResultColumn(quarter, i);
        const int source = column % kLaneIndices * kQuarters + source_quarter;
        std::uint32_t column_words[2] = {};
#pragma unroll
        for (int owner = 0; owner < kIndices; ++owner) {
          const std::uint32_t low = Shuffle(columns.Word(owner, 0), source);
          const std::uint32_t high = Shuffle(columns.Word(owner, 1), source);
          if (column / kLaneIndices == owner) {
            column_words[0] = low;
            column_words[1] = high;
          }
        }
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
          tile.values[j][i] +=
              Dot<T>(row_words[j][0], column_words[0]) + Dot<T>(row_words[j][1], column_words[1]);
        }
      }
    }
  }

 private:
  template <class T>
  __device__ static __forceinline__ float Dot(std::uint32_t a, std::uint32_t b) {
    const T a_low = {static_cast<std::uint16_t>(a)}, a_high = {static_cast<std::uint16_t>(a >> 16)};
    const T b_low = {static_cast<std::uint16_t>(b)}, b_high = {static_cast<std::uint16_t>(b >> 16)};
    return ToFloat(a_low) * ToFloat(b_low) + ToFloat(a_high) * ToFloat(b_high);
  }
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_FMA_UNIT_H_
