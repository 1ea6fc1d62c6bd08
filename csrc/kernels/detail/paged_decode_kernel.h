// The decode kernel. One block serves one KV head of one sequence in one partition of its keys, for all
// query heads of the group: keys and values cross memory once, whatever the group.
//
// Work of a block: its waves take turns in the partition's key tiles (16 keys each). A wave loads a tile of
// keys and of values straight into the registers from which the matrix unit takes its operands: rows are
// read in 16-byte runs, and what is transposed for the value product is transposed between registers. No
// LDS and no barrier lies between memory and matrix unit; loads of the next tile are in flight while this
// one is computed. At the end the waves' results merge through LDS.
//
// Up to 16 query rows (group heads x query tokens) fill one row tile. More rows use more row tiles: up to
// four share the block, each wave serving one, and the same keys then come from cache; beyond 64 rows the
// grid repeats.
//
// Budget a block: LDS 128 bytes x kHeadSize for queries and merge (32 KB at 256), 4 KB of page ids, 0.5 KB
// of statistics. Registers a lane at head size 128: accumulators 64 on wave 32 and 32 on wave 64, one tile of
// keys and one of values 32 + 32 (16 + 16). Queries stay in LDS: 32 more registers would cost the card that
// has the fewest a block per compute unit or spills.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_KERNEL_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_KERNEL_H_

#include <hip/hip_runtime.h>

#include "arch/registers.h"
#include "fragment.h"
#include "head_shape.h"
#include "key_range.h"
#include "logits.h"
#include "matrix.h"
#include "online_softmax.h"
#include "page_table.h"
#include "paged_decode.h"
#include "row_result.h"
#include "shared.h"
#include "value_tiles.h"
#include "words.h"

namespace hygon_backend {

constexpr int kDecodeWaves = 4;
constexpr int kDecodeThreads = kDecodeWaves * kWaveWidth;
constexpr int kMaxRowTiles = kDecodeWaves;
// Page ids staged at a time.
constexpr int kStagedPages = 1024;
// Sequences along the grid's y axis, which ends at 65,535; more fold into z.
constexpr int kMaxGridSeqs = 65535;

template <class T, class Stored, int kHeadSize, bool kVector, class Unit>
class DecodeWave {
  using Shape = HeadShape<kHeadSize>;
  static constexpr int kKeySteps = Shape::kKeySteps;
  static constexpr int kKeyRun = Shape::kKeyRun;
  static constexpr int kValueRun = Shape::kValueRun;
  static constexpr int kValueBlocks = Shape::kValueBlocks;

 public:
  // A run of a query row for each step, index and lane: 16 rows take as many bytes as they have in memory.
  using QueryRun = Run<T, kKeyRun>;
  static constexpr int kQueryRuns = kKeySteps * kIndices * kWaveWidth;

  // `queries` is LDS of kQueryRuns for this wave's row tile; of the waves that share it one `stages` it, and
  // a barrier must follow before Attend.
  __device__ __forceinline__ DecodeWave(const PagedDecodeParams& params, int kv_head, int first_row, int seq,
                                        int seq_len, const KeyRange& range, QueryRun* queries, bool stages)
      : params_(params),
        keys_(static_cast<const Stored*>(params.k_cache) + kv_head * params.k_head_stride),
        values_(static_cast<const Stored*>(params.v_cache) + kv_head * params.v_head_stride),
        quarter_(Unit::Quarter(LaneIndex())),
        begin_(range.begin),
        queries_(queries + LaneIndex()),
        logit_of_(params, params.scale * KeyScale(params, kv_head)) {
    const int group = params.num_heads / params.num_kv_heads;
    const int rows = group * params.q_len;
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      const int row = first_row + Unit::Index(LaneIndex(), j);
      const bool live = row < rows;
      const int token = live ? row / group : 0;
      const int head = kv_head * group + (live ? row % group : 0);
      position_[j] = seq_len - params.q_len + token;
      last_[j] = live ? position_[j] : -1;
      first_[j] = params.window > 0 ? position_[j] - params.window + 1 : 0;
      slope_[j] = live && params.alibi_slopes != nullptr ? params.alibi_slopes[head] * kLog2E : 0.0F;
      if (stages) {
        StageQuery(static_cast<const T*>(params.q) + seq * params.q_seq_stride +
                       token * params.q_token_stride + head * params.q_head_stride,
                   j, live);
      }
    }
    // Keys that every row sees need no mask.
    all_see_from_ = params.window > 0 ? seq_len - params.window : 0;
    all_see_to_ = seq_len - params.q_len;
    ForEachAccumulator([](float& value, int, int) { value = 0.0F; });
  }

  // Attends to keys [start, end), every `step`-th tile of them. `page_ids` holds the pages from
  // `first_page` on.
  __device__ __forceinline__ void Attend(int start, int end, int step, const int* page_ids, int first_page) {
    if (start >= end) return;
    LoadKeys(start, end, page_ids, first_page);
    LoadValues(start, end, page_ids, first_page);
    for (int tile = start; tile < end; tile += step) {
      const int next = tile + step;
      Tile scores[1] = {MultiplyKeys()};
      if (next < end) LoadKeys(next, end, page_ids, first_page);
      ToLogits(scores[0], tile, end);
      float rescale[kIndices];
      softmax_.template Add<Unit>(scores, 1.0F, rescale);
      Rescale(rescale);
      AddValues(scores[0]);
      if (next < end) LoadValues(next, end, page_ids, first_page);
    }
  }

  // Reduces the row sums over the lanes that share a row.
  __device__ __forceinline__ void FinishSums() {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) softmax_.sum[j] = SumOverRow<Unit>(softmax_.sum[j]);
  }

  __device__ __forceinline__ void Rescale(const float (&rescale)[kIndices]) {
    ForEachAccumulator([&](float& value, int j, int) { value *= rescale[j]; });
  }

  // Calls visit(value, j, slot) for this lane's accumulators: j tells the row, and `slot` numbers them.
  template <class Visit>
  __device__ __forceinline__ void ForEachAccumulator(Visit visit) {
#pragma unroll
    for (int block = 0; block < kValueBlocks; ++block) {
#pragma unroll
      for (int part = 0; part < kValueRun; ++part) {
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            visit(accumulators_[block][part].values[j][i], j,
                  ((block * kValueRun + part) * kIndices + j) * 4 + i);
          }
        }
      }
    }
  }

  // Calls write(dim, values) for the runs of neighbouring dims that this lane has of row j.
  template <class Write>
  __device__ __forceinline__ void ForEachRun(int j, Write write) const {
#pragma unroll
    for (int block = 0; block < kValueBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float run[kValueRun];
#pragma unroll
        for (int part = 0; part < kValueRun; ++part) run[part] = accumulators_[block][part].values[j][i];
        write((block * kTile + Unit::ResultColumn(quarter_, i)) * kValueRun, run);
      }
    }
  }

  __device__ __forceinline__ OnlineSoftmax& softmax() { return softmax_; }

 private:
  __device__ __forceinline__ void StageQuery(const T* q, int j, bool live) {
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      const int dim = (step * kQuarters + quarter_) * kKeyRun;
      QueryRun run = {};
      if (live && dim < params_.head_size) {
        run = LoadRun<T, kKeyRun, kVector>(q + dim, 1, params_.head_size - dim);
      }
      queries_[(step * kIndices + j) * kWaveWidth] = run;
    }
  }

  // The offset of a token's row from the cache's start.
  __device__ __forceinline__ std::int64_t RowOffset(int token, const int* page_ids, int first_page,
                                                    std::int64_t block_stride,
                                                    std::int64_t token_stride) const {
    const int page = PageOf(params_, token);
    const int slot = token - page * params_.block_size;
    return page_ids[page - first_page] * block_stride + slot * token_stride;
  }

  // Whether all tokens of a tile are wanted, which is the same for all lanes.
  __device__ __forceinline__ bool IsWhole(int tile, int end) const {
    return tile >= begin_ && tile + kTile <= end;
  }

  __device__ __forceinline__ void LoadKeys(int tile, int end, const int* page_ids, int first_page) {
    if (IsWhole(tile, end)) {
      LoadKeys<true>(tile, end, page_ids, first_page);
    } else {
      LoadKeys<false>(tile, end, page_ids, first_page);
    }
  }

  __device__ __forceinline__ void LoadValues(int tile, int end, const int* page_ids, int first_page) {
    if (IsWhole(tile, end)) {
      LoadValues<true>(tile, end, page_ids, first_page);
    } else {
      LoadValues<false>(tile, end, page_ids, first_page);
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void LoadKeys(int tile, int end, const int* page_ids, int first_page) {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      const int token = tile + Unit::Index(LaneIndex(), j);
      const bool live = kWhole || (token >= begin_ && token < end);
      const Stored* row =
          keys_ +
          (live ? RowOffset(token, page_ids, first_page, params_.k_block_stride, params_.k_token_stride) : 0);
#pragma unroll
      for (int step = 0; step < kKeySteps; ++step) {
        const int dim = (step * kQuarters + quarter_) * kKeyRun;
        if (live && dim < params_.head_size) {
          loaded_keys_[step][j] = LoadKeyRun(row, dim);
        } else {
          loaded_keys_[step][j] = {};
        }
      }
    }
  }

  __device__ __forceinline__ Run<Stored, kKeyRun> LoadKeyRun(const Stored* row, int dim) const {
    if constexpr (kVector) {
      return LoadRun<Stored, kKeyRun, true>(row + dim, 1, kKeyRun);
    } else {
      dim = KeepInLoop(dim);
      // A run of 8 lies within one pack, since packs hold whole runs.
      const Stored* from =
          row + dim / params_.k_pack * params_.k_pack_stride + dim % params_.k_pack * params_.k_dim_stride;
      return LoadRun<Stored, kKeyRun, false>(from, params_.k_dim_stride, params_.head_size - dim);
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void LoadValues(int tile, int end, const int* page_ids, int first_page) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = tile + Unit::ResultColumn(quarter_, i);
      const bool live = kWhole || (token >= begin_ && token < end);
      const Stored* row =
          values_ +
          (live ? RowOffset(token, page_ids, first_page, params_.v_block_stride, params_.v_token_stride) : 0);
#pragma unroll
      for (int block = 0; block < kValueBlocks; ++block) {
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
          const int dim = (block * kTile + Unit::Index(LaneIndex(), j)) * kValueRun;
          if (live && dim < params_.head_size_v) {
            loaded_values_[block][j][i] = LoadValueRun(row, dim);
          } else {
            loaded_values_[block][j][i] = {};
          }
        }
      }
    }
  }

  __device__ __forceinline__ Run<Stored, kValueRun> LoadValueRun(const Stored* row, int dim) const {
    if constexpr (kVector) {
      return LoadRun<Stored, kValueRun, true>(row + dim, 1, kValueRun);
    } else {
      return LoadRun<Stored, kValueRun, false>(row + dim * params_.v_dim_stride, params_.v_dim_stride,
                                               params_.head_size_v - dim);
    }
  }

  // Scores of this lane's rows with the loaded tile of keys.
  __device__ __forceinline__ Tile MultiplyKeys() const {
    Tile scores = {};
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      // Either half of the runs makes an operand.
      Operand rows[2];
      Operand columns[2];
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        const QueryRun query = queries_[(step * kIndices + j) * kWaveWidth];
        const Run<T, kKeyRun> key = Widen<T, Stored, kKeyRun>(loaded_keys_[step][j]);
#pragma unroll
        for (int word = 0; word < kKeyRun / 2; ++word) {
          rows[word / 2].Word(j, word % 2) = query.words[word];
          columns[word / 2].Word(j, word % 2) = key.words[word];
        }
      }
      Unit::template MultiplyAdd<T>(scores, rows[0], columns[0]);
      Unit::template MultiplyAdd<T>(scores, rows[1], columns[1]);
    }
    return scores;
  }

  // Applies scale, soft cap, position bias and mask; logits come out in base 2.
  __device__ __forceinline__ void ToLogits(Tile& scores, int tile, int end) const {
    const bool all_visible = IsWhole(tile, end) && tile >= all_see_from_ && tile + kTile - 1 <= all_see_to_;
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = tile + Unit::ResultColumn(quarter_, i);
        float& logit = scores.values[j][i];
        logit = logit_of_(logit);
        if (params_.alibi_slopes != nullptr) {
          logit += slope_[j] * static_cast<float>(token - position_[j]);
        }
        if (!all_visible && (token < first_[j] || token > last_[j] || token >= end)) {
          logit = HYGON_MINUS_INFINITY;
        }
      }
    }
  }

  __device__ __forceinline__ void AddValues(const Tile& weights) {
    Operand rows;
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      rows.Word(j, 0) = PackPair<T>(weights.values[j][0], weights.values[j][1]);
      rows.Word(j, 1) = PackPair<T>(weights.values[j][2], weights.values[j][3]);
    }
#pragma unroll
    for (int block = 0; block < kValueBlocks; ++block) {
      Operand columns[kValueRun];
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        Run<T, kValueRun> runs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) runs[i] = Widen<T, Stored, kValueRun>(loaded_values_[block][j][i]);
        TransposeRuns<kValueRun>(runs, j, columns);
      }
#pragma unroll
      for (int part = 0; part < kValueRun; ++part) {
        Unit::template MultiplyAdd<T>(accumulators_[block][part], rows, columns[part]);
      }
    }
  }

  const PagedDecodeParams& params_;
  const Stored* keys_;
  const Stored* values_;
  int quarter_;
  int begin_;
  QueryRun* queries_;
  int all_see_from_;
  int all_see_to_;
  LogitScale logit_of_;

  int position_[kIndices];
  int first_[kIndices];
  int last_[kIndices];
  float slope_[kIndices];

  Run<Stored, kKeyRun> loaded_keys_[kKeySteps][kIndices];
  Run<Stored, kValueRun> loaded_values_[kValueBlocks][kIndices][4];
  OnlineSoftmax softmax_;
  // Result column c of accumulator [block][part] is dim (block * 16 + c) * kValueRun + part.
  Tile accumulators_[kValueBlocks][kValueRun];
};

// The keys that a sequence's queries see.
__device__ __forceinline__ KeyRange DecodeKeys(const PagedDecodeParams& params, int seq_len) {
  return KeyRange(params, seq_len - params.q_len, seq_len, kTile);
}

__device__ __forceinline__ int SeqLen(const PagedDecodeParams& params, std::int64_t seq) {
  return static_cast<int>(ReadIndex(params.seq_lens, params.seq_lens_wide, seq * params.seq_lens_stride));
}

// The query rows of a call; see combine.h.
class DecodeRows {
 public:
  __device__ __forceinline__ explicit DecodeRows(const PagedDecodeParams& params) : params_(params) {}

  __device__ __forceinline__ std::int64_t Count() const {
    return static_cast<std::int64_t>(params_.num_seqs) * params_.q_len * params_.num_heads;
  }

  __device__ __forceinline__ RowPlace Place(std::int64_t seq, int token, int head) const {
    return {(seq * params_.q_len + token) * params_.num_heads + head, head,
            seq * params_.out_seq_stride + token * params_.out_token_stride + head * params_.out_head_stride,
            seq * params_.lse_seq_stride + token * params_.lse_token_stride + head * params_.lse_head_stride};
  }

  __device__ __forceinline__ RowPlace Place(std::int64_t row) const {
    const std::int64_t token = row / params_.num_heads;
    return Place(token / params_.q_len, static_cast<int>(token % params_.q_len),
                 static_cast<int>(row % params_.num_heads));
  }

  __device__ __forceinline__ int LivePartitions(std::int64_t row) const {
    const std::int64_t seq = row / params_.num_heads / params_.q_len;
    return DecodeKeys(params_, SeqLen(params_, seq)).Count();
  }

 private:
  const PagedDecodeParams& params_;
};

template <class T, class Stored, int kHeadSize, bool kVector, class Unit>
__global__ HYGON_MATRIX_LAUNCH_BOUNDS(kDecodeThreads) void PagedDecodeKernel(const PagedDecodeParams params,
                                                                             const int row_tiles) {
  constexpr int kAccumulatorFloats = kTile * kHeadSize;
  HYGON_SHARED(int, page_ids, kStagedPages);
  HYGON_SHARED(float, maxima, kDecodeWaves* kTile);
  HYGON_SHARED(float, sums, kDecodeWaves* kTile);
  // Queries while the waves attend, accumulators when they merge; as many bytes of either.
  HYGON_SHARED(float, merge, kDecodeWaves / 2 * kAccumulatorFloats);
  using Wave = DecodeWave<T, Stored, kHeadSize, kVector, Unit>;
  static_assert(kMaxRowTiles * Wave::kQueryRuns * sizeof(typename Wave::QueryRun) <= sizeof(merge));
  auto* queries = reinterpret_cast<typename Wave::QueryRun*>(merge);

  const int kv_head = static_cast<int>(blockIdx.x) % params.num_kv_heads;
  const int row_block = static_cast<int>(blockIdx.x) / params.num_kv_heads;
  const int partition = static_cast<int>(blockIdx.z) % params.num_partitions;
  const int fold = static_cast<int>(blockIdx.z) / params.num_partitions;
  const std::int64_t wide_seq = static_cast<std::int64_t>(fold) * kMaxGridSeqs + blockIdx.y;
  if (wide_seq >= params.num_seqs) return;
  const int seq = static_cast<int>(wide_seq);

  const int seq_len = SeqLen(params, seq);
  const KeyRange range = DecodeKeys(params, seq_len);
  const int start = range.Start(partition);
  // An empty sequence still has its rows to write, which partition 0 does.
  if (partition > 0 && start >= range.end) return;
  const int stop = range.Stop(partition);

  const int group = params.num_heads / params.num_kv_heads;
  const int rows = group * params.q_len;
  const int row_tile = WaveIndex() % row_tiles;
  const int stream = WaveIndex() / row_tiles;
  const int streams = kDecodeWaves / row_tiles;
  const int first_row = (row_block * row_tiles + row_tile) * kTile;

  Wave wave(params, kv_head, first_row, seq, seq_len, range, queries + row_tile * Wave::kQueryRuns,
            stream == 0);

  // Tokens whose pages surely fit into the staged ids, in whole tiles.
  const int segment = (kStagedPages - 1) * params.block_size / kTile * kTile;
  for (int from = start; from < stop; from += segment) {
    const int to = stop - from < segment ? stop : from + segment;
    const int first_page = PageOf(params, from < range.begin ? range.begin : from);
    const int last_page = PageOf(params, to - 1);
    if (from != start) __syncthreads();
    for (int page = first_page + static_cast<int>(threadIdx.x); page <= last_page; page += kDecodeThreads) {
      page_ids[page - first_page] = static_cast<int>(
          ReadIndex(params.block_table, params.block_table_wide,
                    seq * params.block_table_seq_stride + page * params.block_table_column_stride));
    }
    __syncthreads();
    if (first_row < rows) wave.Attend(from + stream * kTile, to, streams * kTile, page_ids, first_page);
  }

  // Merge the streams of each row tile: bring all to the common maximum, then add them up pairwise.
  wave.FinishSums();
  OnlineSoftmax& softmax = wave.softmax();
  const int lane = LaneIndex();
  if (Unit::Quarter(lane) == 0) {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      maxima[WaveIndex() * kTile + Unit::Index(lane, j)] = softmax.maximum[j];
      sums[WaveIndex() * kTile + Unit::Index(lane, j)] = softmax.sum[j];
    }
  }
  __syncthreads();
  float rescale[kIndices];
#pragma unroll
  for (int j = 0; j < kIndices; ++j) {
    const int index = Unit::Index(lane, j);
    float whole = HYGON_MINUS_INFINITY;
    for (int other = row_tile; other < kDecodeWaves; other += row_tiles) {
      whole = fmaxf(whole, maxima[other * kTile + index]);
    }
    float sum = 0.0F;
    for (int other = row_tile; other < kDecodeWaves; other += row_tiles) {
      sum += sums[other * kTile + index] * PartWeight(maxima[other * kTile + index], whole);
    }
    rescale[j] = PartWeight(softmax.maximum[j], whole);
    softmax.maximum[j] = whole;
    softmax.sum[j] = sum;
  }
  wave.Rescale(rescale);
  for (int half = streams / 2; half > 0; half /= 2) {
    // Every lane keeps its own elements, so a lane of one wave adds those of its counterpart.
    float* mine = merge + ((stream % half) * row_tiles + row_tile) * kAccumulatorFloats + lane;
    if (stream >= half && stream < 2 * half) {
      wave.ForEachAccumulator([&](float& value, int, int slot) { mine[slot * kWaveWidth] = value; });
    }
    __syncthreads();
    if (stream < half) {
      wave.ForEachAccumulator([&](float& value, int, int slot) { value += mine[slot * kWaveWidth]; });
    }
    __syncthreads();
  }
  if (stream > 0) return;

  const DecodeRows all_rows(params);
  const float value_scale = ValueScale(params, kv_head);
#pragma unroll
  for (int j = 0; j < kIndices; ++j) {
    const int row = first_row + Unit::Index(lane, j);
    if (row >= rows) continue;
    const RowPlace place = all_rows.Place(seq, row / group, kv_head * group + row % group);
    const auto for_each_run = [&](auto write) { wave.ForEachRun(j, write); };
    const bool writes_lse = Unit::Quarter(lane) == 0;
    if (params.num_partitions > 1) {
      StorePartial(params, place, all_rows.Count(), partition, softmax.maximum[j], softmax.sum[j],
                   value_scale, writes_lse, for_each_run);
      continue;
    }
    const float factor =
        FinishRow(params, place, softmax.maximum[j], softmax.sum[j], value_scale, writes_lse);
    T* out = static_cast<T*>(params.out) + place.out;
    for_each_run([&](int dim, const auto& values) {
      StoreScaled(out + dim * params.out_dim_stride, params.out_dim_stride, values, factor,
                  params.head_size_v - dim);
    });
  }
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_KERNEL_H_
