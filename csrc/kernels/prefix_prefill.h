// Attention of new tokens over a paged KV cache that already holds them ("extend"): interface without HIP,
// torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_PREFIX_PREFILL_H_
#define HYGON_BACKEND_CSRC_KERNELS_PREFIX_PREFILL_H_

#include <cstddef>
#include <cstdint>

#include "attention.h"

namespace hygon_backend {

// One call. q and out are [num_tokens, num_heads, ...], lse [num_tokens, num_heads]; q is of out's type or
// fp8, out half or bfloat16.
struct PrefixPrefillParams : AttentionParams {
  // [num_seqs + 1]: sequence s owns the tokens from its offset to the next. Tokens past the last offset get
  // the result of a row without keys.
  const void* cu_seqlens_q = nullptr;
  std::int64_t cu_seqlens_q_stride = 1;
  bool cu_seqlens_q_wide = false;

  // Ragged pages: with offsets [num_seqs + 1] set, block_table is one array, sequence s owns its entries
  // from kv_indptr[s] to the next, and there are block_size keys to each; max_blocks counts the entries of
  // all sequences, and seq_lens is not read.
  const void* kv_indptr = nullptr;
  std::int64_t kv_indptr_stride = 1;
  bool kv_indptr_wide = false;

  // One byte a query and key, or null. Sequence s has its [q_len, kv_len] bytes, dense, at mask_indptr[s];
  // among a sequence's own new tokens a key is visible where its byte is not 0, in place of the causal rule.
  const std::uint8_t* custom_mask = nullptr;
  const void* mask_indptr = nullptr;
  std::int64_t mask_indptr_stride = 1;
  bool mask_indptr_wide = false;

  // Factor of stored queries; a pointer's number multiplies it.
  float q_scale = 1.0F;
  const float* q_scales = nullptr;

  ElementType out_type = ElementType::kBFloat16;

  int num_tokens = 0;
  bool causal = true;
};

// Sets `partition_size` and `num_partitions` from what the host knows, so that a captured graph stays valid
// for other lengths.
//
// A `requested` size above 0 is taken, rounded up to whole stages of keys, and lengthened where a workspace
// of 1 GiB would not hold the partitions, or where a sequence has more than its share of ragged pages. With 0
// the keys are split where the query rows alone leave compute units idle.
void ChoosePartitions(PrefixPrefillParams& params, int num_compute_units, int requested);

std::size_t PrefixPrefillWorkspaceBytes(const PrefixPrefillParams& params);

// Enqueues the call on `stream`, a hipStream_t. Allocates nothing and waits for nothing.
// Throws std::invalid_argument for what no kernel covers, std::runtime_error when a launch fails.
void PrefixPrefill(const PrefixPrefillParams& call, void* stream);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_PREFIX_PREFILL_H_
