// Host code that the attention launchers share: checks of a call, and the size of its workspace.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_ATTENTION_PLAN_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_ATTENTION_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "attention.h"
#include "head_shape.h"
#include "matrix.h"
#include "require.h"

namespace hygon_backend {

// Elements that the vector path loads at once, of keys and queries; of values at most as many.
constexpr int kVectorRun = 8;
// Bound on what small partitions of many keys may ask for.
constexpr std::size_t kLargestWorkspace = std::size_t{1} << 30;

// Of words, which a 64-bit entry has two of: an int counts up to the next column.
constexpr std::int64_t kLargestColumnStride = 1 << 29;

inline int CeilDivide(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

// Keys that the block table has room for; positions have 31 bits.
inline std::int64_t MostKeys(const AttentionParams& p) {
  constexpr std::int64_t kLargestPosition = 0x7fffffff;
  const std::int64_t keys = static_cast<std::int64_t>(p.max_blocks) * p.block_size;
  return keys < kLargestPosition ? keys : kLargestPosition;
}

inline bool IsFloat8(ElementType type) {
  return type == ElementType::kFloat8E4M3 || type == ElementType::kFloat8E5M2;
}

inline bool IsHalf(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBFloat16;
}

// Whether runs of 8 (keys, queries) or up to 8 (values) dims can each be one aligned load.
inline bool CanVectorise(const AttentionParams& p) {
  const std::size_t cache_bytes = kVectorRun * ElementBytes(p.cache_type);
  bool fits = p.k_dim_stride == 1 && p.v_dim_stride == 1 && p.k_pack >= p.head_size;
  for (const std::int64_t step : {p.q_token_stride, p.q_head_stride, p.k_block_stride, p.k_token_stride,
                                  p.k_head_stride, p.v_block_stride, p.v_token_stride, p.v_head_stride,
                                  std::int64_t{p.head_size}, std::int64_t{p.head_size_v}}) {
    fits = fits && step % kVectorRun == 0;
  }
  return fits && IsAligned(p.q, kVectorRun * ElementBytes(p.query_type)) &&
         IsAligned(p.k_cache, cache_bytes) && IsAligned(p.v_cache, cache_bytes);
}

// Whether an index times a stride of the caches is a product of 32-bit numbers.
inline bool HasNarrowStrides(const AttentionParams& p) {
  bool fits = true;
  for (const std::int64_t stride : {p.k_block_stride, p.k_token_stride, p.v_block_stride, p.v_token_stride}) {
    fits = fits && stride >= 0 && stride <= 0x7fffffff;
  }
  return fits;
}

// Everything that launchers and planners divide by or index with. `compute_type` is what the matrix unit
// multiplies.
inline void CheckAttention(const char* name, const AttentionParams& p, ElementType compute_type) {
  Require(p.num_seqs >= 0 && p.num_heads >= 0 && p.max_blocks >= 0, name, ": sizes must not be negative");
  Require(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, name, ": ", p.num_heads,
          " query heads do not divide among ", p.num_kv_heads, " KV heads");
  Require(
      p.head_size >= 1 && p.head_size <= kMaxHeadSize && p.head_size_v >= 1 && p.head_size_v <= kMaxHeadSize,
      name, ": head sizes are ", p.head_size, " and ", p.head_size_v, ", but must be 1 to ", kMaxHeadSize);
  Require(p.block_size >= 1, name, ": block_size is ", p.block_size, ", but must be at least 1");
  Require(p.k_pack >= p.head_size || (p.k_pack > 0 && p.k_pack % kVectorRun == 0), name,
          ": keys are packed by ", p.k_pack, ", but must be by a multiple of ", kVectorRun);
  Require(IsHalf(compute_type), name, ": the type to compute in is ", static_cast<int>(compute_type),
          ", but must be half or bfloat16");
  Require(p.query_type == compute_type || IsFloat8(p.query_type), name, ": query_type is ",
          static_cast<int>(p.query_type), ", but must be ", static_cast<int>(compute_type), " or fp8");
  Require(p.cache_type == compute_type || IsFloat8(p.cache_type), name, ": cache_type is ",
          static_cast<int>(p.cache_type), ", but must be ", static_cast<int>(compute_type), " or fp8");
  Require(p.block_table_column_stride >= 0 && p.block_table_column_stride <= kLargestColumnStride, name,
          ": columns of the block table are ", p.block_table_column_stride, " apart, but may be at most ",
          kLargestColumnStride);
  Require(!p.avoid_matrix_unit || HYGON_HAS_FMA_FALLBACK, name,
          ": this build has no kernels without the matrix unit");
}

inline void CheckSplit(const char* name, const AttentionParams& p) {
  Require(p.num_partitions >= 1 && p.partition_size >= 1, name,
          ": num_partitions and partition_size must be at least 1");
  Require(p.num_partitions == 1 || (p.workspace != nullptr && IsAligned(p.workspace, 16)), name,
          ": more than one partition needs a workspace, aligned to 16 bytes");
}

// See row_result.h for what lies there.
inline std::size_t WorkspaceBytes(std::size_t num_rows, int num_partitions, int head_size_v) {
  if (num_partitions == 1) return 0;
  const std::size_t parts = num_rows * num_partitions;
  return ((parts + 3) / 4 * 4 + parts * head_size_v) * sizeof(float);
}

// The most partitions that the workspace's bound and the grid allow: longer ones do as well.
inline int MostPartitions(std::size_t num_rows, int head_size_v, int by_grid) {
  const std::size_t per_partition = WorkspaceBytes(num_rows, 2, head_size_v) / 2 + 1;
  const std::size_t by_memory = kLargestWorkspace / per_partition;
  const std::size_t most = by_memory < static_cast<std::size_t>(by_grid) ? by_memory : by_grid;
  return most > 1 ? static_cast<int>(most) : 1;
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_ATTENTION_PLAN_H_
