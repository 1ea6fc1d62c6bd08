// What a wave's lanes hold of a 16 x 16 matrix tile, in terms that every matrix unit here can meet.
//
// A tile product takes two operands with 16 indices each (rows: query rows; columns: keys or dims) and 16
// contraction elements. The lanes of a wave form four quarters of the contraction; a lane owns
// `kIndices` indices of either operand and, for each, the four contraction elements of its quarter.
// Where a unit's contraction order differs, it differs alike in both operands and cancels out.
//
// The result tile has the lane's row indices, and of each row the four columns
// `Unit::ResultColumn(quarter, 0..3)`. They become the contraction elements of the next product without
// leaving the lane: the probabilities of a row are already the row operand of probabilities x values.
//
// A unit is a struct with these static members; `arch/` has one for each chip:
//   kQuarterStep               lanes from a quarter to the next of the same index, a power of two
//   Index(lane, j)             the j-th index that a lane owns, j < kIndices
//   Quarter(lane)              its quarter of the contraction, 0..3
//   ResultColumn(quarter, i)   the column of result element i, i < 4
//   MultiplyAdd<T>(tile, rows, columns)
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_FRAGMENT_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_FRAGMENT_H_

#include <cstdint>

#include "wave.h"

namespace hygon_backend {

constexpr int kTile = 16;
constexpr int kQuarters = 4;
constexpr int kIndices = kTile * kQuarters / kWaveWidth;
constexpr int kLaneIndices = kTile / kIndices;

// Per index four 16-bit elements, two a word, the first one in the low half. The words of all indices lie
// side by side, as units of waves of 32 take them.
struct alignas(kIndices * 8) Operand {
  std::uint32_t words[2][kIndices];

  __device__ __forceinline__ std::uint32_t& Word(int j, int word) { return words[word][j]; }
  __device__ __forceinline__ std::uint32_t Word(int j, int word) const { return words[word][j]; }
};

struct Tile {
  float values[kIndices][4];
};

// Combines a value over the lanes that hold the other columns of the same row.
template <class Unit>
__device__ __forceinline__ float MaxOverRow(float value) {
  value = fmaxf(value, ShuffleXor(value, Unit::kQuarterStep));
  return fmaxf(value, ShuffleXor(value, 2 * Unit::kQuarterStep));
}

template <class Unit>
__device__ __forceinline__ float SumOverRow(float value) {
  value += ShuffleXor(value, Unit::kQuarterStep);
  return value + ShuffleXor(value, 2 * Unit::kQuarterStep);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_FRAGMENT_H_
