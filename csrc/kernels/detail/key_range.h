// Which keys a sequence's queries see, and how partitions divide them. The decode kernel and the combine
// kernel must agree, so both ask here.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_

#include <hip/hip_runtime.h>

#include "fragment.h"
#include "paged_decode.h"

namespace hygon_backend {

__device__ __forceinline__ int RoundUpToTile(int count) { return (count + kTile - 1) / kTile * kTile; }

struct KeyRange {
  // First key that any query sees, and one past the last.
  int begin;
  int end;
  // `begin` rounded down to a tile: where partition 0 starts.
  int base;
  // Keys per partition, whole tiles.
  int partition;

  __device__ __forceinline__ KeyRange(const PagedDecodeParams& params, int seq_len) {
    const int first_position = seq_len - params.q_len;
    end = seq_len;
    begin = 0;
    if (params.window > 0 && first_position - params.window + 1 > 0) {
      begin = first_position - params.window + 1;
    }
    base = begin / kTile * kTile;
    const int share = (end - base + params.num_partitions - 1) / params.num_partitions;
    partition = RoundUpToTile(share > params.partition_size ? share : params.partition_size);
  }

  // Partitions that hold keys; 0 for an empty sequence.
  __device__ __forceinline__ int Count() const {
    return end <= base ? 0 : (end - base + partition - 1) / partition;
  }
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_
