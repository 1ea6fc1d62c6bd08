// Paged decode: choice of split and kernel, and the combine kernel.
#include <hip/hip_runtime.h>

#include <cstdint>

#include "detail/launch_check.h"
#include "detail/paged_decode_launch.h"
#include "detail/require.h"
#include "paged_decode.h"

namespace hygon_backend {

HYGON_DECLARE_PAGED_DECODE(Float16, Float16);
HYGON_DECLARE_PAGED_DECODE(Float16, Float8E4M3);
HYGON_DECLARE_PAGED_DECODE(Float16, Float8E5M2);
HYGON_DECLARE_PAGED_DECODE(BFloat16, BFloat16);
HYGON_DECLARE_PAGED_DECODE(BFloat16, Float8E4M3);
HYGON_DECLARE_PAGED_DECODE(BFloat16, Float8E5M2);

namespace {

constexpr int kMaxHeadSize = 256;
constexpr int kMaxGridZ = 65535;
constexpr int kCombineThreads = 128;
// Elements that the vector path loads at once, of keys and queries; of values at most as many.
constexpr int kRun = 8;
// Bound on what small partitions of long sequences may ask for.
constexpr std::size_t kLargestWorkspace = std::size_t{1} << 30;
// Blocks of the decode kernel that a compute unit holds at once: at head size 128 two on an H200, by its
// registers, and three on gfx90a and gfx942 (docs/amd_resources.md). It only steers how far to split.
constexpr int kResidentBlocks = 2;
// A partition costs a block's start and end and a round trip of its result: worth it from this many keys.
constexpr int kSmallestPartition = 512;
constexpr int kSmallestPartitionOfLargeGroup = 256;
constexpr int kLargeGroup = 16;

int CeilDivide(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

int RowTiles(int rows) {
  const int tiles = CeilDivide(rows, kTile);
  // Waves divide evenly among row tiles, so three tiles take the place of four.
  return tiles >= 3 ? kMaxRowTiles : tiles;
}

// One block a row of q: merges the partitions' results (Flash-Decoding, Dao et al., 2023).
template <class T>
__global__ __launch_bounds__(kCombineThreads) void CombineKernel(const PagedDecodeParams params) {
  const std::int64_t row = blockIdx.x;
  const int head = static_cast<int>(row % params.num_heads);
  const int token = static_cast<int>(row / params.num_heads % params.q_len);
  const std::int64_t seq = row / params.num_heads / params.q_len;
  const int seq_len =
      static_cast<int>(ReadIndex(params.seq_lens, params.seq_lens_wide, seq * params.seq_lens_stride));
  const KeyRange range(params, seq_len);
  // Partition 0 of an empty sequence holds an empty result.
  const int live = range.Count();
  const int count = live > 1 ? live : 1;
  const float* lse = WorkspaceLse(params) + row * params.num_partitions;
  const float* parts = WorkspaceOutputs(params) + row * params.num_partitions * params.head_size_v;

  float maximum = HYGON_MINUS_INFINITY;
  for (int part = 0; part < count; ++part) maximum = fmaxf(maximum, lse[part]);
  float sum = 0.0F;
  for (int part = 0; part < count; ++part) sum += PartWeight(lse[part], maximum);
  const Denominator denominator(params, head, maximum, sum);
  const float factor = denominator.OutputFactor();

  T* out = static_cast<T*>(params.out) + seq * params.out_seq_stride + token * params.out_token_stride +
           head * params.out_head_stride;
  for (int dim = static_cast<int>(threadIdx.x); dim < params.head_size_v; dim += kCombineThreads) {
    float value = 0.0F;
    for (int part = 0; part < count; ++part) {
      value +=
          PartWeight(lse[part], maximum) * parts[static_cast<std::int64_t>(part) * params.head_size_v + dim];
    }
    out[dim * params.out_dim_stride] = FromFloat<T>(value * factor);
  }
  if (params.lse != nullptr && threadIdx.x == 0) {
    params
        .lse[seq * params.lse_seq_stride + token * params.lse_token_stride + head * params.lse_head_stride] =
        denominator.NaturalLse();
  }
}

bool IsMultiple(std::int64_t value, std::int64_t factor) { return value % factor == 0; }

// Whether runs of 8 (keys, queries) or up to 8 (values) dims can each be one aligned load.
bool CanVectorise(const PagedDecodeParams& p) {
  const std::size_t cache_bytes = kRun * ElementBytes(p.cache_type);
  const bool dense = p.k_dim_stride == 1 && p.v_dim_stride == 1 && p.k_pack >= p.head_size;
  const bool strides = IsMultiple(p.q_seq_stride, kRun) && IsMultiple(p.q_token_stride, kRun) &&
                       IsMultiple(p.q_head_stride, kRun) && IsMultiple(p.k_block_stride, kRun) &&
                       IsMultiple(p.k_token_stride, kRun) && IsMultiple(p.k_head_stride, kRun) &&
                       IsMultiple(p.v_block_stride, kRun) && IsMultiple(p.v_token_stride, kRun) &&
                       IsMultiple(p.v_head_stride, kRun);
  return dense && strides && IsMultiple(p.head_size, kRun) && IsMultiple(p.head_size_v, kRun) &&
         IsAligned(p.q, kRun * ElementBytes(p.query_type)) && IsAligned(p.k_cache, cache_bytes) &&
         IsAligned(p.v_cache, cache_bytes);
}

// Everything that launchers and planners divide by or index with.
void CheckParams(const PagedDecodeParams& p) {
  Require(p.num_seqs >= 0 && p.q_len >= 0 && p.num_heads >= 0 && p.max_blocks >= 0,
          "paged_decode: sizes must not be negative");
  Require(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "paged_decode: ", p.num_heads,
          " query heads do not divide among ", p.num_kv_heads, " KV heads");
  Require(
      p.head_size >= 1 && p.head_size <= kMaxHeadSize && p.head_size_v >= 1 && p.head_size_v <= kMaxHeadSize,
      "paged_decode: head sizes are ", p.head_size, " and ", p.head_size_v, ", but must be 1 to ",
      kMaxHeadSize);
  Require(p.block_size >= 1, "paged_decode: block_size is ", p.block_size, ", but must be at least 1");
  Require(p.k_pack >= p.head_size || (p.k_pack > 0 && p.k_pack % kRun == 0),
          "paged_decode: keys are packed by ", p.k_pack, ", but must be by a multiple of ", kRun);
  Require(p.query_type == ElementType::kFloat16 || p.query_type == ElementType::kBFloat16,
          "paged_decode: query_type is ", static_cast<int>(p.query_type), ", but must be half or bfloat16");
  Require(p.cache_type == p.query_type || p.cache_type == ElementType::kFloat8E4M3 ||
              p.cache_type == ElementType::kFloat8E5M2,
          "paged_decode: cache_type is ", static_cast<int>(p.cache_type),
          ", but must be the queries' or fp8");
  Require(!p.avoid_matrix_unit || HYGON_HAS_FMA_FALLBACK,
          "paged_decode: this build has no kernels without the matrix unit");
}

bool IsEmpty(const PagedDecodeParams& p) { return p.num_seqs == 0 || p.q_len == 0 || p.num_heads == 0; }

int Folds(const PagedDecodeParams& p) { return CeilDivide(p.num_seqs, kMaxGridSeqs); }

std::size_t WorkspaceBytes(const PagedDecodeParams& p, int num_partitions) {
  if (num_partitions == 1) return 0;
  const std::size_t rows = static_cast<std::size_t>(p.num_seqs) * p.q_len * p.num_heads;
  const std::size_t parts = rows * num_partitions;
  return ((parts + 3) / 4 * 4 + parts * p.head_size_v) * sizeof(float);
}

// The most partitions that the grid and the workspace's bound allow: longer ones do as well.
int MostPartitions(const PagedDecodeParams& p) {
  const std::size_t per_partition = WorkspaceBytes(p, 2) / 2 + 1;
  const std::size_t by_memory = kLargestWorkspace / per_partition;
  const std::size_t by_grid = kMaxGridZ / Folds(p);
  const std::size_t most = by_memory < by_grid ? by_memory : by_grid;
  return most > 1 ? static_cast<int>(most) : 1;
}

template <class T>
void LaunchCombine(const PagedDecodeParams& params, hipStream_t stream) {
  const std::int64_t rows = static_cast<std::int64_t>(params.num_seqs) * params.q_len * params.num_heads;
  hipLaunchKernelGGL(CombineKernel<T>, dim3(static_cast<unsigned>(rows)), dim3(kCombineThreads), 0, stream,
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

int NumComputeUnits() {
  int device = 0;
  int count = 0;
  CheckHip(hipGetDevice(&device), "hipGetDevice");
  CheckHip(hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device),
           "hipDeviceGetAttribute");
  return count;
}

void ChoosePartitions(PagedDecodeParams& params, int num_compute_units, int requested) {
  CheckParams(params);
  params.num_partitions = 1;
  params.partition_size = requested > 0 ? CeilDivide(requested, kTile) * kTile : kSmallestPartition;
  const std::int64_t capacity = static_cast<std::int64_t>(params.max_blocks) * params.block_size;
  if (IsEmpty(params) || capacity == 0) return;
  const int group = params.num_heads / params.num_kv_heads;
  const int bound = MostPartitions(params);
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
  return WorkspaceBytes(params, params.num_partitions);
}

void PagedDecode(const PagedDecodeParams& params, void* stream) {
  CheckParams(params);
  if (IsEmpty(params)) return;
  Require(params.num_partitions >= 1 && params.partition_size >= 1,
          "paged_decode: num_partitions and partition_size must be at least 1");
  Require(params.num_partitions == 1 || (params.workspace != nullptr && IsAligned(params.workspace, 16)),
          "paged_decode: more than one partition needs a workspace, aligned to 16 bytes");
  const std::int64_t depth = static_cast<std::int64_t>(Folds(params)) * params.num_partitions;
  Require(depth <= kMaxGridZ, "paged_decode: ", params.num_seqs, " sequences in ", params.num_partitions,
          " partitions exceed the grid");
  const int rows = params.num_heads / params.num_kv_heads * params.q_len;
  DecodeLaunch launch;
  launch.row_tiles = RowTiles(rows);
  launch.stream = static_cast<hipStream_t>(stream);
  launch.vector = CanVectorise(params);
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
