// What becomes of a query row at the end: its place in the output and in the workspace, its denominator.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_ROW_RESULT_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_ROW_RESULT_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "attention.h"
#include "online_softmax.h"
#include "words.h"

namespace hygon_backend {

// A query row is one head of one token. Rows are counted token by token.
struct RowPlace {
  std::int64_t row;
  int head;
  // Offsets of its elements in `out` and `lse`.
  std::int64_t out;
  std::int64_t lse;
};

// The workspace: base-2 LSE [rows, num_partitions], then, 16-byte aligned, outputs
// [rows, num_partitions, head_size_v], all float32.
__device__ __forceinline__ float* WorkspaceLse(const AttentionParams& params) {
  return static_cast<float*>(params.workspace);
}

__device__ __forceinline__ float* WorkspaceOutputs(const AttentionParams& params, std::int64_t num_rows) {
  const std::int64_t count = num_rows * params.num_partitions;
  return static_cast<float*>(params.workspace) + (count + 3) / 4 * 4;
}

// A row without keys has sum 0 and output 0; a NaN among its logits stays one.
__device__ __forceinline__ float DivideBySum(float numerator, float sum) {
  return sum > 0.0F ? numerator / sum : (sum == 0.0F ? 0.0F : sum);
}

// A row's final denominator: its largest logit and its sum, the sink included.
struct Denominator {
  float maximum;
  float sum;
  // What sums and outputs relative to the old maximum are multiplied by.
  float weight;

  __device__ __forceinline__ Denominator(const AttentionParams& params, int head, float maximum_in,
                                         float sum_in)
      : maximum(maximum_in), sum(sum_in), weight(1.0F) {
    if (params.sinks == nullptr) return;
    const float sink = params.sinks[head] * kLog2E;
    maximum = fmaxf(maximum_in, sink);
    if (maximum == HYGON_MINUS_INFINITY) return;
    weight = PartWeight(maximum_in, maximum);
    sum = sum_in * weight + PartWeight(sink, maximum);
  }

  __device__ __forceinline__ float OutputFactor() const { return DivideBySum(weight, sum); }
  __device__ __forceinline__ float NaturalLse() const {
    return sum == 0.0F ? HYGON_MINUS_INFINITY : kLn2 * (maximum + log2f(sum));
  }
};

__device__ __forceinline__ float ValueScale(const AttentionParams& params, int kv_head) {
  return params.v_scales == nullptr ? params.v_scale
                                    : params.v_scale * params.v_scales[kv_head * params.v_scales_stride];
}

// Stores the LSE of a row that is done and returns what its accumulators are multiplied by. One lane of the
// row `writes_lse`.
__device__ __forceinline__ float FinishRow(const AttentionParams& params, const RowPlace& place,
                                           float maximum, float sum, float value_scale, bool writes_lse) {
  const Denominator denominator(params, place.head, maximum, sum);
  if (params.lse != nullptr && writes_lse) params.lse[place.lse] = denominator.NaturalLse();
  return denominator.OutputFactor() * value_scale;
}

// Stores a run of a row of `head_size` floats, which is aligned if its length allows, as far as the row goes.
template <int kCount>
__device__ __forceinline__ void StoreFloats(float* row, int dim, const float (&values)[kCount], float factor,
                                            int head_size) {
  constexpr int kWidth = kCount < 4 ? kCount : 4;
  struct alignas(kWidth * 4) Vector {
    float values[kWidth];
  };
  if (head_size % kWidth == 0) {
#pragma unroll
    for (int first = 0; first < kCount; first += kWidth) {
      if (dim + first >= head_size) return;
      Vector vector;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) vector.values[i] = values[first + i] * factor;
      *reinterpret_cast<Vector*>(row + dim + first) = vector;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (dim + i < head_size) row[dim + i] = values[i] * factor;
  }
}

// Stores a partition's result of a row in the workspace. for_each_run(write) calls write(dim, values) for the
// runs of neighbouring dims that this lane has of the row.
template <class ForEachRun>
__device__ __forceinline__ void StorePartial(const AttentionParams& params, const RowPlace& place,
                                             std::int64_t num_rows, int partition, float maximum, float sum,
                                             float value_scale, bool writes_lse, ForEachRun for_each_run) {
  const std::int64_t slot = place.row * params.num_partitions + partition;
  const float factor = DivideBySum(value_scale, sum);
  float* out = WorkspaceOutputs(params, num_rows) + slot * params.head_size_v;
  for_each_run(
      [&](int dim, const auto& values) { StoreFloats(out, dim, values, factor, params.head_size_v); });
  if (writes_lse) WorkspaceLse(params)[slot] = sum == 0.0F ? HYGON_MINUS_INFINITY : maximum + log2f(sum);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_ROW_RESULT_H_
