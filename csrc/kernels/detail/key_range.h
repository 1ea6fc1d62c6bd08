// Which keys a block's queries see, and how partitions divide them. Attention kernels and the combine
// kernel must agree, so both ask here.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "attention.h"

namespace hygon_backend {

struct KeyRange {
  // First key that any query sees, and one past the last.
  int begin;
  int end;
  // `begin` rounded down to a step: where partition 0 starts.
  int base;
  // Keys per partition, whole steps. Like what is computed of it, it may pass 2^31 where the table does.
  std::int64_t partition;

  // The keys of queries from `first_position` on, up to `key_end`, cut in steps of `step` keys.
  __device__ __forceinline__ KeyRange(const AttentionParams& params, int first_position, int key_end,
                                      int step)
      : begin(0), end(key_end) {
    if (params.window > 0 && first_position - params.window + 1 > 0) {
      begin = first_position - params.window + 1;
    }
    base = begin / step * step;
    const std::int64_t keys = end - base;
    const std::int64_t share = (keys + params.num_partitions - 1) / params.num_partitions;
    const std::int64_t least = share > params.partition_size ? share : params.partition_size;
    partition = (least + step - 1) / step * step;
  }

  // Partitions that hold keys; 0 where no query sees any.
  __device__ __forceinline__ int Count() const {
    return end <= base ? 0 : static_cast<int>((end - base + partition - 1) / partition);
  }

  // The keys of a partition, from Start() to Stop() - 1; none where both are `end`.
  __device__ __forceinline__ int Start(int part) const { return Limited(base + part * partition); }
  __device__ __forceinline__ int Stop(int part) const { return Limited(base + (part + 1) * partition); }

 private:
  __device__ __forceinline__ int Limited(std::int64_t key) const {
    return key < end ? static_cast<int>(key) : end;
  }
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_KEY_RANGE_H_
