// Prefix prefill: choice of split and kernel.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>

#include "detail/attention_plan.h"
#include "detail/combine.h"
#include "detail/launch_check.h"
#include "detail/prefix_prefill_launch.h"
#include "prefix_prefill.h"

namespace hygon_backend {

HYGON_DECLARE_PREFIX_PREFILL(Float16, Float16);
HYGON_DECLARE_PREFIX_PREFILL(Float16, Float8E4M3);
HYGON_DECLARE_PREFIX_PREFILL(Float16, Float8E5M2);
HYGON_DECLARE_PREFIX_PREFILL(Float16, AnyStored);
HYGON_DECLARE_PREFIX_PREFILL(BFloat16, BFloat16);
HYGON_DECLARE_PREFIX_PREFILL(BFloat16, Float8E4M3);
HYGON_DECLARE_PREFIX_PREFILL(BFloat16, Float8E5M2);
HYGON_DECLARE_PREFIX_PREFILL(BFloat16, AnyStored);

namespace {

constexpr int kMaxGridYZ = 65535;
constexpr std::int64_t kMaxGridX = 0x7fffffff;
// Blocks that a compute unit holds at once, by registers on an H200 and by LDS elsewhere.
constexpr int kResidentBlocks = 2;
// Keys of a partition: below this many its start and end cost more than the split gains.
constexpr int kSmallestPartition = 256;

PrefillTiling Tiling(const PrefixPrefillParams& p) { return TilingOf(KernelHeadSize(LargerHeadSize(p))); }

void CheckParams(const PrefixPrefillParams& p) {
  CheckAttention("prefix_prefill", p, p.out_type);
  Require(p.num_tokens >= 0, "prefix_prefill: sizes must not be negative");
  Require(p.num_kv_heads <= kMaxGridYZ, "prefix_prefill: ", p.num_kv_heads, " KV heads exceed the grid");
  Require(p.custom_mask == nullptr || p.mask_indptr != nullptr,
          "prefix_prefill: a custom mask needs mask_indptr");
}

bool IsEmpty(const PrefixPrefillParams& p) { return p.num_tokens == 0 || p.num_heads == 0; }

std::int64_t NumRows(const PrefixPrefillParams& p) {
  return static_cast<std::int64_t>(p.num_tokens) * p.num_heads;
}

// Keys of a long sequence, as far as the host can tell.
std::int64_t ExpectedKeys(const PrefixPrefillParams& p) {
  if (p.num_seqs == 0) return 0;
  // One array of pages for all sequences tells their sum.
  if (p.kv_indptr != nullptr) return CeilDivide(MostKeys(p), p.num_seqs);
  return MostKeys(p);
}

// Blocks along the grid's x axis; see prefill_rows.h. One more sequence stands for tokens of no sequence.
std::int64_t GridBlocks(const PrefixPrefillParams& p) {
  const int group = p.num_heads / p.num_kv_heads;
  return static_cast<std::int64_t>(p.num_tokens) * group / Tiling(p).block_rows() + p.num_seqs + 1;
}

template <class T>
void LaunchPrefill(const PrefixPrefillParams& params, dim3 grid, hipStream_t stream) {
  if (!CanVectorise(params) || !HasNarrowStrides(params)) {
    LaunchPrefixPrefill<T, AnyStored>(params, grid, stream);
  } else if (params.cache_type == ElementType::kFloat8E4M3) {
    LaunchPrefixPrefill<T, Float8E4M3>(params, grid, stream);
  } else if (params.cache_type == ElementType::kFloat8E5M2) {
    LaunchPrefixPrefill<T, Float8E5M2>(params, grid, stream);
  } else {
    LaunchPrefixPrefill<T, T>(params, grid, stream);
  }
  CheckHip(hipGetLastError(), "launching prefix_prefill");
  if (params.num_partitions == 1) return;
  auto* combine = &CombineKernel<T, PrefixPrefillParams, PrefillRows>;
  hipLaunchKernelGGL(combine, dim3(static_cast<unsigned>(NumRows(params))), dim3(kCombineThreads), 0, stream,
                     params);
  CheckHip(hipGetLastError(), "launching prefix_prefill's combine");
}

}  // namespace

void ChoosePartitions(PrefixPrefillParams& params, int num_compute_units, int requested) {
  CheckParams(params);
  const PrefillTiling tiling = Tiling(params);
  params.num_partitions = 1;
  params.partition_size =
      CeilDivide(requested > 0 ? requested : kSmallestPartition, tiling.stage_keys) * tiling.stage_keys;
  const std::int64_t longest_keys = ExpectedKeys(params);
  if (IsEmpty(params) || longest_keys == 0) return;
  const int bound = MostPartitions(NumRows(params), params.head_size_v, kMaxGridYZ);
  const int wanted = CeilDivide(longest_keys, params.partition_size);
  const int most = wanted < bound ? wanted : bound;
  if (requested > 0) {
    params.num_partitions = most;
    return;
  }
  const int group = params.num_heads / params.num_kv_heads;
  const int row_blocks =
      CeilDivide(static_cast<std::int64_t>(params.num_tokens) * group, tiling.block_rows());
  const int sequences = params.num_seqs < params.num_tokens ? params.num_seqs : params.num_tokens;
  const std::int64_t units =
      static_cast<std::int64_t>(row_blocks > sequences ? row_blocks : sequences) * params.num_kv_heads;
  const std::int64_t slots = static_cast<std::int64_t>(num_compute_units) * kResidentBlocks;
  // In stages of keys: what the last rows of a sequence see, and by causality how much less the first ones
  // do.
  const double longest = CeilDivide(longest_keys, tiling.stage_keys);
  const int q_len = CeilDivide(params.num_tokens, sequences);
  const double drop = params.causal ? static_cast<double>(q_len) / tiling.stage_keys : 0.0;
  const double shortest = longest > drop ? longest - drop : 0.0;
  const double mean = (longest + shortest) / 2;
  // Likewise in stages: what a block costs at its start and end, and what writing a partial result and
  // merging it costs beside.
  constexpr double kBlockCost = 4;
  constexpr double kPartialCost = 40;
  double best_cost = 0;
  for (int count = 1; count <= most; ++count) {
    const double beside = kBlockCost + (count > 1 ? kPartialCost : 0);
    const std::int64_t blocks = units * count;
    const auto rounds = static_cast<double>((blocks + slots - 1) / slots);
    const double load = static_cast<double>(blocks) / static_cast<double>(slots);
    // No sooner than the longest block, than all blocks spread evenly, than rounds of the shortest ones.
    double cost = longest / count + beside;
    cost = std::max(cost, load * (mean / count + beside));
    cost = std::max(cost, rounds * (shortest / count + beside));
    if (count == 1 || cost < best_cost) {
      best_cost = cost;
      params.num_partitions = count;
    }
    // More partitions only add to the cost.
    if (blocks >= slots * 4) break;
  }
}

std::size_t PrefixPrefillWorkspaceBytes(const PrefixPrefillParams& params) {
  CheckParams(params);
  return WorkspaceBytes(NumRows(params), params.num_partitions, params.head_size_v);
}

void PrefixPrefill(const PrefixPrefillParams& call, void* stream) {
  CheckParams(call);
  PrefixPrefillParams params = call;
  SetPages(params);
  if (IsEmpty(params)) return;
  CheckSplit("prefix_prefill", params);
  const std::int64_t blocks = GridBlocks(params);
  Require(blocks <= kMaxGridX && params.num_partitions <= kMaxGridYZ, "prefix_prefill: ", params.num_tokens,
          " tokens in ", params.num_partitions, " partitions exceed the grid");
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(params.num_kv_heads),
                  static_cast<unsigned>(params.num_partitions));
  if (params.out_type == ElementType::kFloat16) {
    LaunchPrefill<Float16>(params, grid, static_cast<hipStream_t>(stream));
  } else {
    LaunchPrefill<BFloat16>(params, grid, static_cast<hipStream_t>(stream));
  }
}

}  // namespace hygon_backend
