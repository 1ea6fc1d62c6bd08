// Running softmax of the rows that a lane owns, in base 2 (Milakov and Gimelshein, 2018).
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_

#include <hip/hip_runtime.h>

#include "arch/convert.h"
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

  // Turns tiles of scores, further keys of the same rows, into weights, and returns in `rescale` what earlier
  // weights shrink by. Logits are the scores times `factor`, which is above 0.
  template <class Unit, int kTiles>
  __device__ __forceinline__ void Add(Tile (&tiles)[kTiles], float factor, float (&rescale)[kIndices]) {
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      float largest = HYGON_MINUS_INFINITY;
#pragma unroll
      for (const Tile& tile : tiles) {
        const float (&scores)[4] = tile.values[j];
        largest = fmaxf(largest, fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3])));
      }
      const float updated = fmaxf(maximum[j], MaxOverRow<Unit>(largest) * factor);
      // While a row has seen no key, -inf - -inf must not make a NaN.
      const float shift = updated == HYGON_MINUS_INFINITY ? 0.0F : updated;
      rescale[j] = arch::Exp2(maximum[j] - shift);
      maximum[j] = updated;
      sum[j] *= rescale[j];
#pragma unroll
      for (Tile& tile : tiles) {
#pragma unroll
        for (float& score : tile.values[j]) {
          score = arch::Exp2(fmaf(score, factor, -shift));
          sum[j] += score;
        }
      }
    }
  }
};

// Weight of a partial result whose largest logit is `part` where the whole's is `whole`.
__device__ __forceinline__ float PartWeight(float part, float whole) {
  return part == HYGON_MINUS_INFINITY ? 0.0F : arch::Exp2(part - whole);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_ONLINE_SOFTMAX_H_
