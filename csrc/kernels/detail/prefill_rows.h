// How the query rows of a prefill are numbered and cut into blocks.
//
// The query heads of a KV head are packed: row r of a sequence and KV head is token r / group, head r % group
// of the group. A block takes a run of rows of one sequence; sequence s has its first block at
// floor(cu_seqlens_q[s] * group / block_rows) + s, which leaves enough blocks for every sequence and needs no
// sum over sequences, so that neither host nor device has to prepare a schedule. Blocks left over have no
// rows.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_ROWS_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_ROWS_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "arch/prefill_tiling.h"
#include "head_shape.h"
#include "key_range.h"
#include "page_table.h"
#include "prefix_prefill.h"
#include "row_result.h"

namespace hygon_backend {

// Tokens [first_token, first_token + q_len) of the call, the last ones of kv_len keys.
struct PrefillSequence {
  int index;
  int first_token;
  int q_len;
  int kv_len;

  __device__ __forceinline__ int PositionOf(int token) const { return kv_len - q_len + token; }
};

class PrefillRows {
 public:
  __device__ __forceinline__ explicit PrefillRows(const PrefixPrefillParams& params)
      : params_(params),
        group_(params.num_heads / params.num_kv_heads),
        tiling_(TilingOf(KernelHeadSize(LargerHeadSize(params)))) {}

  __device__ __forceinline__ int group() const { return group_; }

  // Sequence of a block and the block's first row in it, which may be past the sequence's last.
  __device__ __forceinline__ PrefillSequence OfBlock(int block, int& first_row) const {
    const int seq = Search([&](int s) { return FirstBlock(s) <= block; });
    first_row = (block - FirstBlock(seq)) * tiling_.block_rows();
    return Sequence(seq);
  }

  // The keys that rows from `first_row` on, a block of them, see.
  __device__ __forceinline__ KeyRange Keys(const PrefillSequence& seq, int first_row) const {
    const int last_row = first_row + tiling_.block_rows() - 1;
    const int last_token = last_row / group_ < seq.q_len ? last_row / group_ : seq.q_len - 1;
    int end = seq.kv_len;
    if (params_.causal && params_.custom_mask == nullptr) end = seq.PositionOf(last_token) + 1;
    return KeyRange(params_, seq.PositionOf(first_row / group_), end > 0 ? end : 0, tiling_.stage_keys);
  }

  __device__ __forceinline__ std::int64_t Count() const {
    return static_cast<std::int64_t>(params_.num_tokens) * params_.num_heads;
  }

  __device__ __forceinline__ RowPlace Place(int token, int head) const {
    return {static_cast<std::int64_t>(token) * params_.num_heads + head, head,
            token * params_.out_token_stride + head * params_.out_head_stride,
            token * params_.lse_token_stride + head * params_.lse_head_stride};
  }

  __device__ __forceinline__ RowPlace Place(std::int64_t row) const {
    return Place(static_cast<int>(row / params_.num_heads), static_cast<int>(row % params_.num_heads));
  }

  __device__ __forceinline__ int LivePartitions(std::int64_t row) const {
    const int token = static_cast<int>(row / params_.num_heads);
    const PrefillSequence seq = Sequence(Search([&](int s) { return Offset(s) <= token; }));
    const int packed = (token - seq.first_token) * group_ + static_cast<int>(row % group_);
    return Keys(seq, packed / tiling_.block_rows() * tiling_.block_rows()).Count();
  }

  // Offset of the sequence's first page id in the block table.
  __device__ __forceinline__ std::int64_t Table(const PrefillSequence& seq) const {
    if (seq.index == params_.num_seqs) return 0;
    return params_.kv_indptr == nullptr ? seq.index * params_.block_table_seq_stride
                                        : KvOffset(seq.index) * params_.block_table_column_stride;
  }

 private:
  // The last sequence that `starts` holds for; it does for 0. Tokens past the last offset count as a sequence
  // without keys.
  template <class Starts>
  __device__ __forceinline__ int Search(Starts starts) const {
    int low = 0;
    int high = params_.num_seqs + 1;
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      if (starts(middle)) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  __device__ __forceinline__ PrefillSequence Sequence(int seq) const {
    const int first = Offset(seq);
    if (seq == params_.num_seqs) return {seq, first, params_.num_tokens - first, 0};
    const int kv_len = params_.kv_indptr != nullptr
                           ? static_cast<int>(KvOffset(seq + 1) - KvOffset(seq))
                           : static_cast<int>(ReadIndex(params_.seq_lens, params_.seq_lens_wide,
                                                        seq * params_.seq_lens_stride));
    return {seq, first, Offset(seq + 1) - first, kv_len};
  }

  __device__ __forceinline__ int Offset(int seq) const {
    return static_cast<int>(
        ReadIndex(params_.cu_seqlens_q, params_.cu_seqlens_q_wide, seq * params_.cu_seqlens_q_stride));
  }

  __device__ __forceinline__ std::int64_t KvOffset(int seq) const {
    return ReadIndex(params_.kv_indptr, params_.kv_indptr_wide, seq * params_.kv_indptr_stride);
  }

  __device__ __forceinline__ int FirstBlock(int seq) const {
    return static_cast<int>(static_cast<std::int64_t>(Offset(seq)) * group_ >> tiling_.block_rows_log2) + seq;
  }

  const PrefixPrefillParams& params_;
  int group_;
  PrefillTiling tiling_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFILL_ROWS_H_
