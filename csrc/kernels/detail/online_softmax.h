// Running softmax of the rows that a lane owns, in base 2 (Milakov and Gimelshein, 2018).
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_

#include <hip/hip_runtime.h>

#include "fragment.h"

namespace hygon_backend {

constexpr float kLog2E = 1.44269504088896340736F;
constexpr float kLn2 = 0.69314718055994530942F;

// Plain constants: the maths headers' infinity is no constant expression in every device compiler.
#define HYGON_MINUS_INFINITY (-__builtin_huge_valf())

struct OnlineSoftmax {
  // Largest logit so far, -inf before the first visible key.
  float maximum[kIndices];
  // This lane's share of the sum of 2^(logit - maximum).
  float sum[kIndices];

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      maximum[j] = HYGON_MINUS_INFINITY;
      sum[j] = 0.0F;
    }
  }

  // Turns a tile of logits into weights and returns in `rescale` what earlier weights shrink by.
  template <class Unit>
  __device__ __forceinline__ void Add(Tile& tile, float (&rescale)[kIndices]) {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      float (&logits)[4] = tile.values[j];
      const float largest = fmaxf(fmaxf(logits[0], logits[1]), fmaxf(logits[2], logits[3]));
      const float updated = fmaxf(maximum[j], MaxOverRow<Unit>(largest));
      // While a row has seen no key, -inf - -inf must not make a NaN.
      const float shift = updated == HYGON_MINUS_INFINITY ? 0.0F : updated;
      rescale[j] = exp2f(maximum[j] - shift);
      maximum[j] = updated;
      sum[j] *= rescale[j];
#pragma unroll
      for (float& logit : logits) {
        logit = exp2f(logit - shift);
        sum[j] += logit;
      }
    }
  }
};

// Weight of a partial result whose largest logit is `part` where the whole's is `whole`.
__device__ __forceinline__ float PartWeight(float part, float whole) {
  return part == HYGON_MINUS_INFINITY ? 0.0F : exp2f(part - whole);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_
