// Paged decode: choice of split and kernel.
#include <hip/hip_runtime.h>

#include <cstdint>

#include "detail/attention_plan.h"
#include "detail/combine.h"
#include "detail/launch_check.h"
#include "detail/paged_decode_launch.h"
#include "paged_decode.h"

namespace hygon_backend {

HYGON_DECLARE_PAGED_DECODE(Float16, Float16);
HYGON_DECLARE_PAGED_DECODE(Float16, Float8E4M3);
HYGON_DECLARE_PAGED_DECODE(Float16, Float8E5M2);
HYGON_DECLARE_PAGED_DECODE(BFloat16, BFloat16);
HYGON_DECLARE_PAGED_DECODE(BFloat16, Float8E4M3);
HYGON_DECLARE_PAGED_DECODE(BFloat16, Float8E5M2);

namespace {

constexpr int kMaxGridZ = 65535;
// Blocks of the decode kernel that a compute unit holds at once: at head size 128 two on an H200, by its
// registers, and three on gfx90a and gfx942 (docs/amd_resources.md). It only steers how far to split.
constexpr int kResidentBlocks = 2;
// A partition costs a block's start and end and a round trip of its result: worth it from this many keys.
constexpr int kSmallestPartition = 512;
constexpr int kSmallestPartitionOfLargeGroup = 256;
constexpr int kLargeGroup = 16;

int RowTiles(int rows) {
  const int tiles = CeilDivide(rows, kTile);
  // Waves divide evenly among row tiles, so three tiles take the place of four.
  return tiles >= 3 ? kMaxRowTiles : tiles;
}

bool DecodeCanVectorise(const PagedDecodeParams& params) {
  return CanVectorise(params) && params.q_seq_stride % kVectorRun == 0;
}

void CheckParams(const PagedDecodeParams& params) {
  CheckAttention("paged_decode", params, params.query_type);
  Require(params.q_len >= 0, "paged_decode: sizes must not be negative");
}

bool IsEmpty(const PagedDecodeParams& p) { return p.num_seqs == 0 || p.q_len == 0 || p.num_heads == 0; }

int Folds(const PagedDecodeParams& p) { return CeilDivide(p.num_seqs, kMaxGridSeqs); }

std::int64_t NumRows(const PagedDecodeParams& p) {
  return static_cast<std::int64_t>(p.num_seqs) * p.q_len * p.num_heads;
}

template <class T>
void LaunchCombine(const PagedDecodeParams& params, hipStream_t stream) {
  auto* kernel = &CombineKernel<T, PagedDecodeParams, DecodeRows>;
  hipLaunchKernelGGL(kernel, dim3(static_cast<unsigned>(NumRows(params))), dim3(kCombineThreads), 0, stream,
                     params);
}

template <class T>
void LaunchDecode(const PagedDecodeParams& params, const DecodeLaunch& launch) {
  if (params.cache_type == ElementType::kFloat8E4M3) {
    LaunchPagedDecode<T, Float8E4M3>(params, launch);
  } else if (params.cache_type == ElementType::kFloat8E5M2) {
    LaunchPagedDecode<T, Float8E5M2>(params, launch);
  } else {
    LaunchPagedDecode<T, T>(params, launch);
  }
  CheckHip(hipGetLastError(), "launching paged_decode");
  if (params.num_partitions == 1) return;
  LaunchCombine<T>(params, launch.stream);
  CheckHip(hipGetLastError(), "launching paged_decode's combine");
}

}  // namespace

void ChoosePartitions(PagedDecodeParams& params, int num_compute_units, int requested) {
  CheckParams(params);
  params.num_partitions = 1;
  params.partition_size = requested > 0 ? CeilDivide(requested, kTile) * kTile : kSmallestPartition;
  const std::int64_t capacity = MostKeys(params);
  if (IsEmpty(params) || capacity == 0) return;
  const int group = params.num_heads / params.num_kv_heads;
  const int bound = MostPartitions(NumRows(params), params.head_size_v, kMaxGridZ / Folds(params));
  if (requested > 0) {
    const int wanted = CeilDivide(capacity, params.partition_size);
    params.num_partitions = wanted < bound ? wanted : bound;
    return;
  }
  params.partition_size = group >= kLargeGroup ? kSmallestPartitionOfLargeGroup : kSmallestPartition;
  const int wanted = CeilDivide(capacity, params.partition_size);
  const int most = wanted < bound ? wanted : bound;
  const int row_tiles = RowTiles(group * params.q_len);
  const std::int64_t units = static_cast<std::int64_t>(params.num_seqs) * params.num_kv_heads *
                             CeilDivide(group * params.q_len, kTile * row_tiles);
  const std::int64_t slots = static_cast<std::int64_t>(num_compute_units) * kResidentBlocks;
  // Rounds of resident blocks cost alike whether full or not. Take the first count whose last round wastes
  // little, and stop where rounds are so many that the last one no longer matters.
  constexpr std::int64_t kManyRounds = 4;
  constexpr double kGoodShare = 0.9;
  int best = 1;
  double best_share = 0.0;
  for (int count = 1; count <= most; ++count) {
    const std::int64_t blocks = units * count;
    const std::int64_t rounds = (blocks + slots - 1) / slots;
    const double share = static_cast<double>(blocks) / static_cast<double>(rounds * slots);
    if (share > best_share) {
      best = count;
      best_share = share;
    }
    if (share >= kGoodShare || rounds >= kManyRounds) break;
  }
  params.num_partitions = best;
}

std::size_t PagedDecodeWorkspaceBytes(const PagedDecodeParams& params) {
  CheckParams(params);
  return WorkspaceBytes(NumRows(params), params.num_partitions, params.head_size_v);
}

void PagedDecode(const PagedDecodeParams& call, void* stream) {
  CheckParams(call);
  PagedDecodeParams params = call;
  SetPages(params);
  if (IsEmpty(params)) return;
  CheckSplit("paged_decode", params);
  const std::int64_t depth = static_cast<std::int64_t>(Folds(params)) * params.num_partitions;
  Require(depth <= kMaxGridZ, "paged_decode: ", params.num_seqs, " sequences in ", params.num_partitions,
          " partitions exceed the grid");
  const int rows = params.num_heads / params.num_kv_heads * params.q_len;
  DecodeLaunch launch;
  launch.row_tiles = RowTiles(rows);
  launch.stream = static_cast<hipStream_t>(stream);
  launch.vector = DecodeCanVectorise(params);
  launch.grid = dim3(static_cast<unsigned>(params.num_kv_heads * CeilDivide(rows, kTile * launch.row_tiles)),
                     static_cast<unsigned>(params.num_seqs < kMaxGridSeqs ? params.num_seqs : kMaxGridSeqs),
                     static_cast<unsigned>(depth));
  if (params.query_type == ElementType::kFloat16) {
    LaunchDecode<Float16>(params, launch);
  } else {
    LaunchDecode<BFloat16>(params, launch);
  }
}

}  // namespace hygon_backend
