// Decode attention over a paged KV cache: interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_PAGED_DECODE_H_
#define HYGON_BACKEND_CSRC_KERNELS_PAGED_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "attention.h"

namespace hygon_backend {

// One call. q and out are [num_seqs, q_len, num_heads, ...], lse [num_seqs, q_len, num_heads]; q is half or
// bfloat16, out of q's type.
struct PagedDecodeParams : AttentionParams {
  std::int64_t q_seq_stride = 0;
  std::int64_t out_seq_stride = 0;
  std::int64_t lse_seq_stride = 0;
  int q_len = 1;
};

// Sets `partition_size` and `num_partitions` from what the host knows, so that a captured graph stays valid
// for any seq_lens that the block table can hold.
//
// A `requested` size above 0 is taken, rounded up to whole key tiles, and lengthened where the grid or a
// workspace of 1 GiB would not hold the partitions. With 0 partitions have at least 512
// keys, or 256 where more than 15 query heads share a KV head, and there are as few of them as keep
// `num_compute_units` evenly busy.
void ChoosePartitions(PagedDecodeParams& params, int num_compute_units, int requested);

std::size_t PagedDecodeWorkspaceBytes(const PagedDecodeParams& params);

// Enqueues the call on `stream`, a hipStream_t. Allocates nothing and waits for nothing.
// Throws std::invalid_argument for what no kernel covers, std::runtime_error when a launch fails.
void PagedDecode(const PagedDecodeParams& call, void* stream);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_PAGED_DECODE_H_
