// Merges two attention results over disjoint keys, each weighted by its share of the denominator.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "detail/convert_run.h"
#include "detail/launch_check.h"
#include "detail/numeric.h"
#include "detail/require.h"
#include "merge_states.h"

namespace hygon_backend {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridX = 0x7fffffff;

struct Split {
  int runs;
  int rows_per_block;
  bool vector;
};

// Selects rather than multiplies by zero: an empty state's output may be NaN.
__device__ __forceinline__ float Weigh(float weight, bool empty, float value) {
  return empty ? 0.0F : weight * value;
}

template <class T>
__global__ __launch_bounds__(kThreads) void MergeKernel(const MergeStatesParams params, const Split split) {
  constexpr int kRun = kRunElements<T, T>;
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * split.rows_per_block;
  const std::int64_t left = num_rows - first;
  const int rows = static_cast<int>(left < split.rows_per_block ? left : split.rows_per_block);
  for (int item = static_cast<int>(threadIdx.x); item < rows * split.runs; item += kThreads) {
    const int row = item / split.runs;
    const int dim = (item - row * split.runs) * kRun;
    const std::int64_t token = (first + row) / params.num_heads;
    const int head = static_cast<int>(first + row - token * params.num_heads);
    const auto lse_of = [&](const AttentionState& state) {
      return state.lse + token * state.lse_token_stride + head * state.lse_head_stride;
    };
    const auto out_of = [&](const AttentionState& state) {
      return static_cast<T*>(state.out) + token * state.out_token_stride + head * state.out_head_stride +
             dim * state.out_dim_stride;
    };

    const float lse_a = *lse_of(params.a);
    const float lse_b = *lse_of(params.b);
    const bool empty_a = std::isinf(lse_a) && lse_a < 0.0F;
    const bool empty_b = std::isinf(lse_b) && lse_b < 0.0F;
    const float top = empty_a && empty_b ? 0.0F : fmaxf(lse_a, lse_b);
    // Relative to the larger LSE, not to the merged one: near 60,000 the latter is off by up to 0.002, and
    // weights relative to it would not add up to 1.
    const float weight_a = expf(lse_a - top);
    const float weight_b = expf(lse_b - top);
    const float sum = weight_a + weight_b;
    if (dim == 0) *lse_of(params.merged) = logf(sum) + top;
    const float total = sum == 0.0F ? 1.0F : sum;
    const auto merge = [&](T a, T b) {
      const float value = Weigh(weight_a, empty_a, ToFloat(a)) + Weigh(weight_b, empty_b, ToFloat(b));
      return FromFloat<T>(value / total);
    };

    const T* a = out_of(params.a);
    const T* b = out_of(params.b);
    T* to = out_of(params.merged);
    if (split.vector) {
      const auto run_a = *reinterpret_cast<const ElementRun<T, kRun>*>(a);
      const auto run_b = *reinterpret_cast<const ElementRun<T, kRun>*>(b);
      ElementRun<T, kRun> merged;
#pragma unroll
      for (int i = 0; i < kRun; ++i) merged.elements[i] = merge(run_a.elements[i], run_b.elements[i]);
      *reinterpret_cast<ElementRun<T, kRun>*>(to) = merged;
    } else {
      for (int i = 0; i < kRun && dim + i < params.head_size; ++i) {
        to[i * params.merged.out_dim_stride] =
            merge(a[i * params.a.out_dim_stride], b[i * params.b.out_dim_stride]);
      }
    }
  }
}

template <class T>
bool CanVectorise(const AttentionState& state, int head_size) {
  constexpr int kRun = kRunElements<T, T>;
  return state.out_dim_stride == 1 && head_size % kRun == 0 && state.out_token_stride % kRun == 0 &&
         state.out_head_stride % kRun == 0 && IsAligned(state.out, kVectorBytes);
}

template <class T>
void Launch(const MergeStatesParams& params, hipStream_t stream) {
  constexpr int kRun = kRunElements<T, T>;
  Split split;
  // A row without elements has its LSE still.
  split.runs = std::max(1, (params.head_size + kRun - 1) / kRun);
  split.rows_per_block = std::max(1, kThreads / split.runs);
  split.vector = params.head_size > 0 && CanVectorise<T>(params.a, params.head_size) &&
                 CanVectorise<T>(params.b, params.head_size) &&
                 CanVectorise<T>(params.merged, params.head_size);
  const std::int64_t rows = params.num_tokens * params.num_heads;
  const std::int64_t blocks = (rows + split.rows_per_block - 1) / split.rows_per_block;
  Require(blocks <= kMaxGridX, "merge_states: too many rows for one call");
  hipLaunchKernelGGL(MergeKernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, params,
                     split);
}

}  // namespace

void MergeStates(const MergeStatesParams& params, void* stream) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  auto* const hip_stream = static_cast<hipStream_t>(stream);
  switch (params.type) {
    case ElementType::kFloat32:
      Launch<Float32>(params, hip_stream);
      break;
    case ElementType::kFloat16:
      Launch<Float16>(params, hip_stream);
      break;
    case ElementType::kBFloat16:
      Launch<BFloat16>(params, hip_stream);
      break;
    default:
      Require(false, "merge_states: outputs must be float32, half or bfloat16");
  }
  CheckHip(hipGetLastError(), "merge_states");
}

}  // namespace hygon_backend
