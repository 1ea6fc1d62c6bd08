// Value operands by ldmatrix.trans, which transposes 8 x 8 tiles on the way from LDS (PTX ISA, "ldmatrix").
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_VALUE_TILES_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_VALUE_TILES_H_

#include <cstdint>

#include "detail/fragment.h"
#include "detail/lds_tile.h"

namespace hygon_backend::arch {

template <int kHeadSize, class Unit>
struct ValueTiles {
  static constexpr int kGroup = 1;
  static constexpr int kGroups = kHeadSize / kTile;

  __device__ static __forceinline__ int Dim(int tile, int column) { return tile * kTile + column; }

  __device__ static __forceinline__ void Load(const LdsTile<kHeadSize>& values, int first_key, int tile,
                                              Operand (&columns)[kGroup]) {
    // A lane names one row of one of four 8 x 8 tiles: keys 0-7 and 8-15 of the first 8 dims, then of the
    // other 8.
    const int lane = LaneIndex();
    const int key = first_key + lane % kTile;
    const int chunk = tile * 2 + lane / kTile;
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(values.Chunk(key, chunk)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(columns[0].Word(0, 0)), "=r"(columns[0].Word(0, 1)), "=r"(columns[0].Word(1, 0)),
                   "=r"(columns[0].Word(1, 1))
                 : "r"(address)
                 : "memory");
  }

  template <class Visit>
  __device__ static __forceinline__ void ForEachRun(const Tile (&tiles)[kGroups], int j, int quarter,
                                                    Visit visit) {
#pragma unroll
    for (int tile = 0; tile < kGroups; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const float run[2] = {tiles[tile].values[j][i], tiles[tile].values[j][i + 1]};
        visit(Dim(tile, Unit::ResultColumn(quarter, i)), run);
      }
    }
  }
};

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_VALUE_TILES_H_
