// Writes to, copies in and gathers from a paged KV cache: interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_KV_CACHE_H_
#define HYGON_BACKEND_CSRC_KERNELS_KV_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "detail/element_type.h"

namespace hygon_backend {

// All pointers are device memory. Strides count elements of the tensor they belong to, unless they say
// bytes. Functions enqueue on `stream`, a hipStream_t, allocate nothing and wait for nothing; they throw
// std::invalid_argument for what no kernel covers and std::runtime_error when a launch fails.

// Keys or values, as rows of tokens and as pages.
struct KvPart {
  // Element (token, head, dim) lies at token * token_stride + head * head_stride + dim * dim_stride.
  void* tokens = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t dim_stride = 1;

  // Element (block, slot, head, dim) lies at block * block_stride + slot * cache_token_stride +
  // head * cache_head_stride + dim / pack * pack_stride + dim % pack * cache_dim_stride. A layout that does
  // not interleave dims has `pack` at head_size or above.
  void* cache = nullptr;
  std::int64_t block_stride = 0;
  std::int64_t cache_token_stride = 0;
  std::int64_t cache_head_stride = 0;
  std::int64_t cache_dim_stride = 1;
  std::int64_t pack_stride = 0;
  int pack = 1 << 30;

  int head_size = 0;

  // Factor of stored elements. Where the pointer is set, head h's is at h * stride, and multiplies the
  // number.
  float scale = 1.0F;
  const float* scales = nullptr;
  std::int64_t scales_stride = 0;
};

struct WriteKvParams {
  KvPart k;
  KvPart v;
  // [num_tokens] 32-bit integers, or 64-bit where `wide` says so: block * block_size + slot, or negative.
  const void* slots = nullptr;
  std::int64_t slots_stride = 1;
  bool slots_wide = false;
  // float32, half or bfloat16.
  ElementType token_type = ElementType::kBFloat16;
  ElementType cache_type = ElementType::kBFloat16;
  std::int64_t num_tokens = 0;
  int num_heads = 0;
  int block_size = 0;
};

// Stores tokens divided by their scale in the cache; skips negative slots. fp8 saturates and keeps NaN.
void WriteKv(const WriteKvParams& params, void* stream);

struct GatherKvParams {
  // Tokens are written, the cache is read.
  KvPart k;
  KvPart v;
  // [num_seqs, columns] 32-bit integers, or 64-bit where `wide` says so.
  const void* block_table = nullptr;
  std::int64_t block_table_seq_stride = 0;
  std::int64_t block_table_column_stride = 1;
  bool block_table_wide = false;
  // [num_seqs + 1] prefix sums of the sequences' lengths, dense; the last one is num_tokens.
  const std::int32_t* cu_seqlens = nullptr;
  // float32, half, bfloat16, or the cache's own.
  ElementType token_type = ElementType::kBFloat16;
  ElementType cache_type = ElementType::kBFloat16;
  std::int64_t num_tokens = 0;
  int num_seqs = 0;
  int num_heads = 0;
  int block_size = 0;
};

// Copies every sequence's tokens, multiplied by their scale, out of the cache, one sequence after another.
void GatherKv(const GatherKvParams& params, void* stream);

constexpr int kMaxPageAxes = 6;

struct CopyBlocksParams {
  // One pool of pages. A page is rows of `row_bytes` dense bytes, one at each point of `num_axes` axes.
  void* cache = nullptr;
  std::int64_t block_stride_bytes = 0;
  std::int64_t row_bytes = 0;
  int num_axes = 0;
  std::int64_t axis_sizes[kMaxPageAxes] = {};
  std::int64_t axis_strides_bytes[kMaxPageAxes] = {};
  // [num_pairs, 2] source and destination pages, 32-bit integers, or 64-bit where `wide` says so.
  const void* pairs = nullptr;
  std::int64_t pairs_row_stride = 2;
  std::int64_t pairs_column_stride = 1;
  bool pairs_wide = false;
  std::int64_t num_pairs = 0;
};

// Copies pages within a pool, all at once: a destination must not be in any other pair.
void CopyBlocks(const CopyBlocksParams& params, void* stream);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_KV_CACHE_H_
