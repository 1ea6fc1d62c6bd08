// Reading values from LDS as the column operands of probabilities x values: a lane needs four keys of one
// dim, while memory has the dims of one key side by side.
//
// ValueTiles<kHeadSize, Unit> reads them, kGroup tiles of 16 dims at a time:
//   kGroups                     groups in a row
//   Dim(tile, column)           the dim in column `column` of tile `tile`; the tiles of a group are
//                               numbered one after the other
//   Load(values, first_key, group, columns)
//   ForEachRun(tiles, j, quarter, visit)
//                               calls visit(dim, values) for the runs of neighbouring dims among a lane's
//                               results of row index j, values a float array
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_VALUE_TILES_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_VALUE_TILES_H_

#include "arch/convert.h"
#include "fragment.h"
#include "head_shape.h"
#include "lds_tile.h"

#if defined(__CUDACC__)
#include "arch/nvidia/value_tiles.h"
#endif

namespace hygon_backend {

// From four keys' runs of dims to each dim's four keys.
template <int kRun>
__device__ __forceinline__ void TransposeRuns(const Words<kRun / 2> (&runs)[4], int j,
                                              Operand (&columns)[kRun]) {
#pragma unroll
  for (int word = 0; word < kRun / 2; ++word) {
    columns[word * 2].Word(j, 0) = arch::Zip<0>(runs[0].words[word], runs[1].words[word]);
    columns[word * 2].Word(j, 1) = arch::Zip<0>(runs[2].words[word], runs[3].words[word]);
    columns[word * 2 + 1].Word(j, 0) = arch::Zip<1>(runs[0].words[word], runs[1].words[word]);
    columns[word * 2 + 1].Word(j, 1) = arch::Zip<1>(runs[2].words[word], runs[3].words[word]);
  }
}

// Transposes between registers, on any chip.
template <int kHeadSize, class Unit>
struct TransposingValueTiles {
  static constexpr int kGroup = HeadShape<kHeadSize>::kValueRun;
  static constexpr int kGroups = HeadShape<kHeadSize>::kValueBlocks;

  __device__ static __forceinline__ int Dim(int tile, int column) {
    return (tile / kGroup * kTile + column) * kGroup + tile % kGroup;
  }

  __device__ static __forceinline__ void Load(const LdsTile<kHeadSize>& values, int first_key, int group,
                                              Operand (&columns)[kGroup]) {
    const int lane = LaneIndex();
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      Words<kGroup / 2> runs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        runs[i] = values.template Read<kGroup>(first_key + Unit::ResultColumn(Unit::Quarter(lane), i),
                                               (group * kTile + Unit::Index(lane, j)) * kGroup);
      }
      TransposeRuns<kGroup>(runs, j, columns);
    }
  }

  template <class Visit>
  __device__ static __forceinline__ void ForEachRun(const Tile (&tiles)[kGroups * kGroup], int j, int quarter,
                                                    Visit visit) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float run[kGroup];
#pragma unroll
        for (int part = 0; part < kGroup; ++part) run[part] = tiles[group * kGroup + part].values[j][i];
        visit(Dim(group * kGroup, Unit::ResultColumn(quarter, i)), run);
      }
    }
  }
};

#if defined(__CUDACC__)
template <int kHeadSize, class Unit>
using ValueTiles = arch::ValueTiles<kHeadSize, Unit>;
#else
template <int kHeadSize, class Unit>
using ValueTiles = TransposingValueTiles<kHeadSize, Unit>;
#endif

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_VALUE_TILES_H_
