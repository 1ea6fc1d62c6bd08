// Merging two attention results over disjoint keys: interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_MERGE_STATES_H_
#define HYGON_BACKEND_CSRC_KERNELS_MERGE_STATES_H_

#include <cstdint>

#include "detail/element_type.h"

namespace hygon_backend {

// An attention result. Pointers are device memory, strides count elements.
struct AttentionState {
  // [num_tokens, num_heads, head_size].
  void* out = nullptr;
  std::int64_t out_token_stride = 0;
  std::int64_t out_head_stride = 0;
  std::int64_t out_dim_stride = 1;
  // [num_tokens, num_heads], natural logarithm; -inf marks an empty state, whose `out` is ignored.
  float* lse = nullptr;
  std::int64_t lse_token_stride = 0;
  std::int64_t lse_head_stride = 0;
};

struct MergeStatesParams {
  AttentionState a;
  AttentionState b;
  // Written; may be neither a nor b.
  AttentionState merged;
  // float32, half or bfloat16, of all three.
  ElementType type = ElementType::kBFloat16;
  std::int64_t num_tokens = 0;
  int num_heads = 0;
  int head_size = 0;
};

// Enqueues on `stream`, a hipStream_t; allocates nothing and waits for nothing. Two empty states give 0 and
// -inf. Throws std::invalid_argument for what no kernel covers, std::runtime_error when a launch fails.
void MergeStates(const MergeStatesParams& params, void* stream);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_MERGE_STATES_H_
