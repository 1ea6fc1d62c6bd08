// The prefill kernel. One block serves the query rows of one KV head and of a run of tokens of one sequence,
// in one partition of the keys that they see (FlashAttention-2, Dao, 2023; source document, section 3).
//
// The block brings stages of keys and of values into LDS, each once for all its waves and so for all query
// heads of the group; the next stage is on its way while one is computed, and one barrier a stage separates
// the two. A wave owns whole query rows, so that no result crosses waves. What all rows see takes no mask
// code, and waves leave out stages that none of their rows sees.
//
// Budget a block: 4 waves; 128 rows at head sizes up to 128, 64 above; the stages are those of
// arch/prefill_tiling.h. LDS 32 KB on waves of 64 (24 KB at head size 192), for two stages of keys and
// values. On NVIDIA's waves of 32 two stages take 64 KB and the queries 32 KB at head size 128 (64 KB at 64
// without queries, 96 KB at 256). Registers a lane at head size 128: accumulators 64 on wave 64 and 128 on
// wave 32, queries 32 on wave 64, scores 16 (32).
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_KERNEL_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_KERNEL_H_

#include <hip/hip_runtime.h>

#include "arch/registers.h"
#include "kv_stager.h"
#include "lds_tile.h"
#include "matrix.h"
#include "prefill_rows.h"
#include "prefill_wave.h"
#include "row_result.h"
#include "shared.h"

namespace hygon_backend {

constexpr int kPrefillWaves = 4;
constexpr int kPrefillThreads = kPrefillWaves * kWaveWidth;

// The block's LDS: two stages of keys and values, then each wave's own queries.
template <class T, class Stored, int kHeadSize, bool kGeneral, class Unit>
struct PrefillBlock {
  static constexpr PrefillTiling kTiling = TilingOf(kHeadSize);
  static constexpr int kWaveRows = kTiling.block_rows() / kPrefillWaves;
  using Stager = KvStager<T, Stored, kHeadSize, kTiling.stage_keys, kPrefillThreads>;
  using Wave = PrefillWave<T, kHeadSize, kWaveRows / kTile, kGeneral, Unit>;

  static constexpr int kStageChunks = 4 * Stager::kStageChunks;
  static constexpr int kWaveChunks =
      Wave::kStagedOperands * static_cast<int>(sizeof(Operand)) / static_cast<int>(sizeof(Words<4>));
  static constexpr int kLdsChunks = kStageChunks + kPrefillWaves * kWaveChunks;
  static constexpr int kLdsBytes = kLdsChunks * static_cast<int>(sizeof(Words<4>));
  // Results leave through where the stages were.
  static_assert(kTiling.block_rows() * LdsTile<kHeadSize>::kChunks <= kStageChunks);
};

template <class T, class Stored, int kHeadSize, bool kGeneral, class Unit>
__global__ HYGON_MATRIX_LAUNCH_BOUNDS(kPrefillThreads) void PrefixPrefillKernel(
    const PrefixPrefillParams params) {
  using Block = PrefillBlock<T, Stored, kHeadSize, kGeneral, Unit>;
  using Stager = typename Block::Stager;
  using Wave = typename Block::Wave;
  constexpr PrefillTiling kTiling = Block::kTiling;
  constexpr int kKeys = kTiling.stage_keys;
  constexpr int kWaveRows = Block::kWaveRows;
  constexpr int kChunks = LdsTile<kHeadSize>::kChunks;
  constexpr int kRun = HeadShape<kHeadSize>::kKeyRun;
  constexpr bool kVector = !std::is_same_v<Stored, AnyStored>;
  HYGON_LARGE_SHARED(Words<4>, staged, Block::kLdsChunks);

  // Later tokens see more keys: the blocks that take longest begin first.
  const int block = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int partition = static_cast<int>(blockIdx.z);
  const PrefillRows rows(params);
  int first_row = 0;
  const PrefillSequence seq = rows.OfBlock(block, first_row);
  const int num_rows = seq.q_len * rows.group();
  if (first_row >= num_rows) return;
  const KeyRange range = rows.Keys(seq, first_row);
  const int start = range.Start(partition);
  // Rows without keys have their results to write as well, which partition 0 does.
  if (partition > 0 && start >= range.end) return;
  const int stop = range.Stop(partition);

  Wave wave(params, rows, seq, kv_head, first_row + WaveIndex() * kWaveRows, range.end,
            reinterpret_cast<Operand*>(staged + Block::kStageChunks + WaveIndex() * Block::kWaveChunks));
  if (params.query_type == ElementType::kFloat8E4M3) {
    wave.template LoadQueries<Float8E4M3, kVector>(kv_head, rows.group());
  } else if (params.query_type == ElementType::kFloat8E5M2) {
    wave.template LoadQueries<Float8E5M2, kVector>(kv_head, rows.group());
  } else {
    wave.template LoadQueries<T, kVector>(kv_head, rows.group());
  }

  const auto keys_of = [&](int buffer) {
    return LdsTile<kHeadSize>(staged + buffer * 2 * Stager::kStageChunks);
  };
  const auto values_of = [&](int buffer) {
    return LdsTile<kHeadSize>(staged + (buffer * 2 + 1) * Stager::kStageChunks);
  };
  Stager stager(params, kv_head, rows.Table(seq), start, range.begin, stop);
  int buffer = 0;
  if (start < stop) {
    stager.Fetch(keys_of(0), values_of(0));
    stager.Deliver(keys_of(0), values_of(0));
  }
  for (int key = start; key < stop; key += kKeys) {
    const int other = 1 - buffer;
    const bool more = key + kKeys < stop;
    stager.Arrive();
    // Behind this barrier the stage is there, and no wave reads the other buffer any more.
    __syncthreads();
    if (more) stager.Fetch(keys_of(other), values_of(other));
#pragma unroll 1
    for (int tile = 0; tile < kKeys; tile += kTiling.tile_keys) {
      wave.Attend(keys_of(buffer), values_of(buffer), tile, key + tile);
    }
    if (more) stager.Deliver(keys_of(other), values_of(other));
    buffer = other;
  }

  wave.FinishSums();
  const float value_scale = ValueScale(params, kv_head);
  const bool writes_lse = Unit::Quarter(LaneIndex()) == 0;
  const auto place_of = [&](int row) {
    return rows.Place(seq.first_token + row / rows.group(), kv_head * rows.group() + row % rows.group());
  };
  if (params.num_partitions > 1) {
    wave.ForEachRow([&](int row, float maximum, float sum, auto for_each_run) {
      if (row >= num_rows) return;
      StorePartial(params, place_of(row), rows.Count(), partition, maximum, sum, value_scale, writes_lse,
                   for_each_run);
    });
    return;
  }
  // Results pass through LDS, where the stages were, so that rows leave in whole runs.
  __syncthreads();
  const LdsTile<kHeadSize> results(staged);
  wave.ForEachRow([&](int row, float maximum, float sum, auto for_each_run) {
    if (row >= num_rows) return;
    const float factor = FinishRow(params, place_of(row), maximum, sum, value_scale, writes_lse);
    for_each_run([&](int dim, const auto& values) {
      // Runs are of an even number, and do not cross chunks.
      auto* words = reinterpret_cast<std::uint32_t*>(results.template Element<T>(row - first_row, dim));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(values) / sizeof(float)); i += 2) {
        words[i / 2] = PackPair<T>(values[i] * factor, values[i + 1] * factor);
      }
    });
  });
  __syncthreads();
  const int rows_left = num_rows - first_row;
  const int num_results = (rows_left < kTiling.block_rows() ? rows_left : kTiling.block_rows()) * kChunks;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < num_results; item += kPrefillThreads) {
    const int row = item / kChunks;
    const int dim = item % kChunks * kRun;
    if (dim >= params.head_size_v) continue;
    T* out = static_cast<T*>(params.out) + place_of(first_row + row).out + dim * params.out_dim_stride;
    const Words<4> run = *results.Chunk(row, item % kChunks);
    StoreRun<T, kRun>(out, params.out_dim_stride, run, params.head_size_v - dim);
  }
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_KERNEL_H_
