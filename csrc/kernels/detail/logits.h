// What the score rules do to a dot product.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_LOGITS_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_LOGITS_H_

#include <hip/hip_runtime.h>

#include "arch/convert.h"
#include "attention.h"
#include "online_softmax.h"

namespace hygon_backend {

__device__ __forceinline__ float KeyScale(const AttentionParams& params, int kv_head) {
  return params.k_scales == nullptr ? params.k_scale
                                    : params.k_scale * params.k_scales[kv_head * params.k_scales_stride];
}

// To about 2e-7; near 0, where that would be much of the result, relative to it.
__device__ __forceinline__ float Tanh(float x) {
  const float square = x * x;
  const float near = x * (1.0F + square * (-1.0F / 3.0F + square * (2.0F / 15.0F)));
  const float far = 1.0F - 2.0F * arch::Reciprocal(1.0F + arch::Exp2(x * (2.0F * kLog2E)));
  return square < 0.01F ? near : far;
}

// Scale and soft cap; logits are in base 2.
class LogitScale {
 public:
  // `factor` is what turns a dot product of stored elements into a logit before the cap.
  __device__ __forceinline__ LogitScale(const AttentionParams& params, float factor)
      : cap_(params.softcap * kLog2E),
        factor_(params.softcap == 0.0F ? factor * kLog2E : factor / params.softcap) {}

  __device__ __forceinline__ bool has_cap() const { return cap_ != 0.0F; }
  // What lies between a score and its logit where there is no cap.
  __device__ __forceinline__ float factor() const { return factor_; }

  __device__ __forceinline__ float operator()(float score) const {
    const float scaled = score * factor_;
    return has_cap() ? cap_ * Tanh(scaled) : scaled;
  }

 private:
  float cap_;
  float factor_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_LOGITS_H_
