// One wave's share of a prefill block: its query rows, their scores and their results, all in registers.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_WAVE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_WAVE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "fragment.h"
#include "head_shape.h"
#include "lds_tile.h"
#include "logits.h"
#include "matrix.h"
#include "online_softmax.h"
#include "prefill_rows.h"
#include "value_tiles.h"
#include "words.h"

namespace hygon_backend {

__device__ __forceinline__ float QueryScale(const PrefixPrefillParams& params) {
  return params.q_scales == nullptr ? params.q_scale : params.q_scale * params.q_scales[0];
}

// `kGeneral` waves know every score rule; the others only scale, causal mask and window, and so need fewer
// registers.
template <class T, int kHeadSize, int kRowTiles, bool kGeneral, class Unit>
class PrefillWave {
  static constexpr int kKeys = TilingOf(kHeadSize).tile_keys;
  static constexpr int kKeySteps = HeadShape<kHeadSize>::kKeySteps;
  static constexpr int kKeyRun = HeadShape<kHeadSize>::kKeyRun;
  static constexpr int kKeyTiles = kKeys / kTile;
  static constexpr int kStagedSteps = TilingOf(kHeadSize).staged_steps;
  static constexpr float kSmallestFactor = 1.17549435e-38F;
  using Values = ValueTiles<kHeadSize, Unit>;
  static constexpr int kValueTiles = Values::kGroups * Values::kGroup;

 public:
  // LDS that a wave needs for itself.
  static constexpr int kStagedOperands = kRowTiles * kStagedSteps * 2 * kWaveWidth;

  // Rows from `first_row` of the sequence and KV head; `end` is one past the last key that the block sees.
  __device__ __forceinline__ PrefillWave(const PrefixPrefillParams& params, const PrefillRows& rows,
                                         const PrefillSequence& seq, int kv_head, int first_row, int end,
                                         Operand* staged)
      : params_(params),
        seq_(seq),
        first_row_(first_row),
        end_(end),
        quarter_(Unit::Quarter(LaneIndex())),
        logit_of_(params, params.scale * QueryScale(params) * KeyScale(params, kv_head)),
        staged_queries_(staged + LaneIndex()) {
    const int group = rows.group();
    const int num_rows = seq.q_len * group;
    live_ = first_row < num_rows;
    if (!live_) return;

    const int last_row = first_row + kRowTiles * kTile - 1;
    const int first = seq.PositionOf(first_row / group);
    const int last = seq.PositionOf((last_row < num_rows ? last_row : num_rows - 1) / group);
    if (kGeneral && params.custom_mask != nullptr) {
      last_seen_ = end - 1;
      all_see_to_ = seq.kv_len - seq.q_len - 1;
    } else if (params.causal) {
      last_seen_ = last;
      all_see_to_ = first;
    } else {
      last_seen_ = end - 1;
      all_see_to_ = end - 1;
    }
    first_seen_ = params.window > 0 ? first - params.window + 1 : 0;
    all_see_from_ = params.window > 0 ? last - params.window + 1 : 0;

    ForEachAccumulator([](float& value, int, int) { value = 0.0F; });
  }

  // Reads this lane's share of the queries.
  template <class Stored, bool kVector>
  __device__ __forceinline__ void LoadQueries(int kv_head, int group) {
    if (!live_) return;
    // The softmax multiplies by a factor above 0.
    const std::uint32_t signs = logit_of_.factor() < 0.0F ? 0x80008000U : 0U;
    const auto* q = static_cast<const Stored*>(params_.q) + seq_.first_token * params_.q_token_stride +
                    static_cast<std::int64_t>(kv_head) * group * params_.q_head_stride;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const Stored* from[kIndices];
      bool live[kIndices];
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        const int row = RowOf(m, j);
        const int token = row / group;
        live[j] = token < seq_.q_len;
        from[j] = q + (live[j] ? token * params_.q_token_stride + row % group * params_.q_head_stride : 0);
      }
#pragma unroll
      for (int step = 0; step < kKeySteps; ++step) {
        const int dim = (step * kQuarters + quarter_) * kKeyRun;
        Operand halves[2];
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
          Run<Stored, kKeyRun> run = {};
          if (live[j] && dim < params_.head_size) {
            run = LoadRun<Stored, kKeyRun, kVector>(from[j] + dim, 1, params_.head_size - dim);
          }
          Run<T, kKeyRun> query = Widen<T, Stored, kKeyRun>(run);
          if constexpr (!kGeneral) {
#pragma unroll
            for (std::uint32_t& word : query.words) word ^= signs;
          }
          Split(query, j, halves);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (step < kStagedSteps) {
            *StagedQuery(m, step, half) = halves[half];
          } else {
            queries_[m][step - kStagedSteps][half] = halves[half];
          }
        }
      }
    }
  }

  // Attends to a tile of keys from `start` on, which are in LDS from `row` on.
  __device__ __forceinline__ void Attend(const LdsTile<kHeadSize>& keys, const LdsTile<kHeadSize>& values,
                                         int row, int start) {
    // All of the wave's rows agree: the triangle ends early for the upper waves of a block.
    if (!live_ || start > last_seen_ || start + kKeys <= first_seen_) return;
    Tile scores[kRowTiles][kKeyTiles] = {};
    MultiplyKeys(keys, row, scores);
    if constexpr (kGeneral) ToLogits(scores, start);
    // The rectangle in front of all rows needs no mask.
    if (start < all_see_from_ || start + kKeys - 1 > all_see_to_) Mask(scores, start);
    // Where nothing but a factor lies between scores and logits, the softmax applies it: to queries of either
    // sign, see LoadQueries. A factor of 0 would make a NaN of -inf.
    const float factor = kGeneral ? 1.0F : fmaxf(fabsf(logit_of_.factor()), kSmallestFactor);
    float rescale[kRowTiles][kIndices];
    bool changed = false;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      softmax_[m].template Add<Unit>(scores[m], factor, rescale[m]);
#pragma unroll
      for (const float shrink : rescale[m]) changed = changed || shrink != 1.0F;
    }
    // After the first stages most rows have met their largest logit.
    if (AnyLane(changed)) {
      ForEachAccumulator([&](float& value, int m, int j) { value *= rescale[m][j]; });
    }
    AddValues(values, row, scores);
  }

  // Reduces the row sums over the lanes that share a row.
  __device__ __forceinline__ void FinishSums() {
#pragma unroll
    for (OnlineSoftmax& softmax : softmax_) {
#pragma unroll
      for (float& sum : softmax.sum) sum = SumOverRow<Unit>(sum);
    }
  }

  // Calls visit(row, maximum, sum, for_each_run) for this lane's rows; for_each_run calls write(dim, values)
  // for the runs of neighbouring dims that the lane has of the row.
  template <class Visit>
  __device__ __forceinline__ void ForEachRow(Visit visit) const {
    if (!live_) return;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        visit(RowOf(m, j), softmax_[m].maximum[j], softmax_[m].sum[j],
              [&](auto write) { Values::ForEachRun(accumulators_[m], j, quarter_, write); });
      }
    }
  }

 private:
  __device__ __forceinline__ int RowOf(int m, int j) const {
    return first_row_ + m * kTile + Unit::Index(LaneIndex(), j);
  }

  // A lane reads only what it wrote itself.
  __device__ __forceinline__ Operand* StagedQuery(int m, int step, int half) const {
    return staged_queries_ + ((m * kStagedSteps + step) * 2 + half) * kWaveWidth;
  }

  // Calls visit(value, m, j) for this lane's accumulators.
  template <class Visit>
  __device__ __forceinline__ void ForEachAccumulator(Visit visit) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (Tile& tile : accumulators_[m]) {
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
#pragma unroll
          for (float& value : tile.values[j]) visit(value, m, j);
        }
      }
    }
  }

  __device__ __forceinline__ void MultiplyKeys(const LdsTile<kHeadSize>& keys, int row,
                                               Tile (&scores)[kRowTiles][kKeyTiles]) const {
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      // Either half of the runs makes an operand.
      Operand columns[kKeyTiles][2];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
          const auto run = keys.template Read<kKeyRun>(row + n * kTile + Unit::Index(LaneIndex(), j),
                                                       (step * kQuarters + quarter_) * kKeyRun);
          Split(run, j, columns[n]);
        }
      }
      // In this order products that add to the same scores are far apart.
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          const Operand& rows =
              step < kStagedSteps ? *StagedQuery(m, step, half) : queries_[m][step - kStagedSteps][half];
#pragma unroll
          for (int n = 0; n < kKeyTiles; ++n) {
            Unit::template MultiplyAdd<T>(scores[m][n], rows, columns[n][half]);
          }
        }
      }
    }
  }

  __device__ static __forceinline__ void Split(const Words<kKeyRun / 2>& run, int j, Operand (&halves)[2]) {
#pragma unroll
    for (int word = 0; word < kKeyRun / 2; ++word) halves[word / 2].Word(j, word % 2) = run.words[word];
  }

  // Positions are asked for where they are needed, in few stages of most calls: they need no registers then.
  __device__ __forceinline__ int PositionOf(int m, int j) const {
    const int group = params_.num_heads / params_.num_kv_heads;
    return seq_.PositionOf(RowOf(m, j) / group);
  }

  // Scale, soft cap and position bias; logits come out in base 2.
  __device__ __forceinline__ void ToLogits(Tile (&scores)[kRowTiles][kKeyTiles], int start) const {
    ForEachRowScores(scores, start, [&](int m, int j, auto for_each_score) {
      for_each_score([&](float& score, int) { score = logit_of_(score); });
      if (params_.alibi_slopes == nullptr) return;
      const float slope = SlopeOf(m, j);
      const int position = PositionOf(m, j);
      for_each_score([&](float& score, int key) { score += slope * static_cast<float>(key - position); });
    });
  }

  __device__ __forceinline__ void Mask(Tile (&scores)[kRowTiles][kKeyTiles], int start) const {
    const bool custom = kGeneral && params_.custom_mask != nullptr;
    const int prefix = seq_.kv_len - seq_.q_len;
    ForEachRowScores(scores, start, [&](int m, int j, auto for_each_score) {
      const int position = PositionOf(m, j);
      const int first = params_.window > 0 ? position - params_.window + 1 : 0;
      int last = params_.causal && !custom && position < end_ ? position : end_ - 1;
      // Rows past the sequence's last are nobody's, and have no bytes in a mask.
      if (position >= seq_.kv_len) last = -1;
      for_each_score([&](float& score, int key) {
        bool visible = key >= first && key <= last;
        if (custom && visible && key >= prefix) visible = MaskByte(position - prefix, key) != 0;
        if (!visible) score = HYGON_MINUS_INFINITY;
      });
    });
  }

  // Calls visit(m, j, for_each_score), and that calls change(score, key) for the row's scores.
  template <class Visit>
  __device__ __forceinline__ void ForEachRowScores(Tile (&scores)[kRowTiles][kKeyTiles], int start,
                                                   Visit visit) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < kIndices; ++j) {
        visit(m, j, [&](auto change) {
#pragma unroll
          for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              change(scores[m][n].values[j][i], start + n * kTile + Unit::ResultColumn(quarter_, i));
            }
          }
        });
      }
    }
  }

  // Both of these read memory anew in each stage: rules that few calls have need no registers in all.
  __device__ __forceinline__ float SlopeOf(int m, int j) const {
    const int group = params_.num_heads / params_.num_kv_heads;
    const int kv_head = static_cast<int>(blockIdx.y);
    return params_.alibi_slopes[kv_head * group + RowOf(m, j) % group] * kLog2E;
  }

  __device__ __forceinline__ std::uint8_t MaskByte(int token, int key) const {
    const std::int64_t first =
        ReadIndex(params_.mask_indptr, params_.mask_indptr_wide, seq_.index * params_.mask_indptr_stride);
    return params_.custom_mask[first + static_cast<std::int64_t>(token) * seq_.kv_len + key];
  }

  __device__ __forceinline__ void AddValues(const LdsTile<kHeadSize>& values, int row,
                                            const Tile (&weights)[kRowTiles][kKeyTiles]) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      Operand rows[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int j = 0; j < kIndices; ++j) {
          const float (&part)[4] = weights[m][n].values[j];
          rows[m].Word(j, 0) = PackPair<T>(part[0], part[1]);
          rows[m].Word(j, 1) = PackPair<T>(part[2], part[3]);
        }
      }
#pragma unroll
      for (int group = 0; group < Values::kGroups; ++group) {
        Operand columns[Values::kGroup];
        Values::Load(values, row + n * kTile, group, columns);
#pragma unroll
        for (int part = 0; part < Values::kGroup; ++part) {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
            Unit::template MultiplyAdd<T>(accumulators_[m][group * Values::kGroup + part], rows[m],
                                          columns[part]);
          }
        }
      }
    }
  }

  const PrefixPrefillParams& params_;
  const PrefillSequence& seq_;
  int first_row_;
  int end_;
  int quarter_;
  bool live_;
  LogitScale logit_of_;
  // Keys that some row sees lie from first_seen_ to last_seen_, and all rows see all_see_from_ to
  // all_see_to_.
  int first_seen_ = 0;
  int last_seen_ = -1;
  int all_see_from_ = 0;
  int all_see_to_ = -1;

  Operand* staged_queries_;
  // At least one, for an array of none does not exist.
  Operand queries_[kRowTiles][kKeySteps - kStagedSteps + (kKeySteps == kStagedSteps)][2];
  OnlineSoftmax softmax_[kRowTiles];
  // Column c of accumulator tile t is dim Values::Dim(t, c).
  Tile accumulators_[kRowTiles][kValueTiles];
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_WAVE_H_
