// What every attention operator over a paged KV cache is told: interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ATTENTION_H_
#define HYGON_BACKEND_CSRC_KERNELS_ATTENTION_H_

#include <cstdint>

#include "detail/element_type.h"

namespace hygon_backend {

// Pointers are device memory, strides count elements of the tensor they belong to. Semantics are those of
// hygon_backend/reference.py.
struct AttentionParams {
  // [..., num_heads, head_size], dense in the last axis.
  const void* q = nullptr;
  std::int64_t q_token_stride = 0;
  std::int64_t q_head_stride = 0;

  // Element (block, token, head, dim) of the keys lies at block * k_block_stride + token * k_token_stride
  // + head * k_head_stride + dim / k_pack * k_pack_stride + dim % k_pack * k_dim_stride. A layout that
  // does not interleave dims has k_pack at head_size or above.
  const void* k_cache = nullptr;
  std::int64_t k_block_stride = 0;
  std::int64_t k_token_stride = 0;
  std::int64_t k_head_stride = 0;
  std::int64_t k_dim_stride = 1;
  std::int64_t k_pack_stride = 0;
  int k_pack = 1 << 30;

  // Values, of the keys' element type. A transposed cache has v_token_stride 1 and a large v_dim_stride.
  const void* v_cache = nullptr;
  std::int64_t v_block_stride = 0;
  std::int64_t v_token_stride = 0;
  std::int64_t v_head_stride = 0;
  std::int64_t v_dim_stride = 1;

  // [num_seqs, max_blocks] and [num_seqs], 32-bit integers, or 64-bit where `wide` says so.
  const void* block_table = nullptr;
  std::int64_t block_table_seq_stride = 0;
  std::int64_t block_table_column_stride = 1;
  bool block_table_wide = false;
  const void* seq_lens = nullptr;
  std::int64_t seq_lens_stride = 1;
  bool seq_lens_wide = false;

  // [..., num_heads, head_size_v].
  void* out = nullptr;
  std::int64_t out_token_stride = 0;
  std::int64_t out_head_stride = 0;
  std::int64_t out_dim_stride = 1;

  // [..., num_heads] float32, or null.
  float* lse = nullptr;
  std::int64_t lse_token_stride = 0;
  std::int64_t lse_head_stride = 0;

  // Device memory of the size that the operator's query function tells, 16-byte aligned, owned by the
  // caller; contents are free.
  void* workspace = nullptr;

  // [num_heads] float32, or null.
  const float* sinks = nullptr;
  const float* alibi_slopes = nullptr;

  // Factors of stored keys and values. Where a pointer is set, head h's factor is at h * stride, and
  // multiplies the number.
  float k_scale = 1.0F;
  const float* k_scales = nullptr;
  std::int64_t k_scales_stride = 0;
  float v_scale = 1.0F;
  const float* v_scales = nullptr;
  std::int64_t v_scales_stride = 0;

  ElementType query_type = ElementType::kBFloat16;
  ElementType cache_type = ElementType::kBFloat16;

  int num_seqs = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_size = 0;
  int head_size_v = 0;
  int block_size = 0;
  int max_blocks = 0;

  float scale = 1.0F;
  // Visible keys, the own one included; 0 for all.
  int window = 0;
  // 0 for none.
  float softcap = 0.0F;

  // Keys per partition; rounded up to whole key tiles.
  int partition_size = 0;
  // Partitions of the grid. Keys too many for num_partitions * partition_size make longer ones.
  int num_partitions = 1;

  // How to find a token's page, and a page's id: see detail/page_table.h. Launchers set it.
  int page_shift = 0;
  std::uint32_t page_factor = 0;
  int table_words = 1;
  int table_step = 1;

  // Multiply without the matrix unit.
  bool avoid_matrix_unit = false;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_ATTENTION_H_
