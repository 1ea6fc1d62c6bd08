// Runs of elements as 32-bit words: what one load brings, and how it becomes operands.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_WORDS_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_WORDS_H_

#include <hip/hip_runtime.h>

#include <cstdint>
#include <type_traits>

#include "numeric.h"

namespace hygon_backend {

// Aligned to its size, so that a copy is one load or store.
template <int kCount>
struct alignas(kCount * 4) Words {
  std::uint32_t words[kCount];
};

// A run of `kElements` elements of type T.
template <class T, int kElements>
using Run = Words<kElements* static_cast<int>(sizeof(T)) / 4>;

// Loads a run that is dense and aligned, or else element by element.
template <class T, int kElements, bool kVector>
__device__ __forceinline__ Run<T, kElements> LoadRun(const T* from, std::int64_t stride, int count) {
  Run<T, kElements> run;
  if constexpr (kVector) {
    run = *reinterpret_cast<const Run<T, kElements>*>(from);
  } else {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int word = 0; word < kElements / kPerWord; ++word) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int part = 0; part < kPerWord; ++part) {
        const int element = word * kPerWord + part;
        if (element < count) {
          bits |= static_cast<std::uint32_t>(from[element * stride].bits)
                  << (part * 8 * static_cast<int>(sizeof(T)));
        }
      }
      run.words[word] = bits;
    }
  }
  return run;
}

// Stores up to kElements 16-bit elements with any stride; a whole run that is dense and aligned in one.
template <class T, int kElements>
__device__ __forceinline__ void StoreRun(T* to, std::int64_t stride, const Run<T, kElements>& run,
                                         int count) {
  if (stride == 1 && count >= kElements && reinterpret_cast<std::uintptr_t>(to) % sizeof(run) == 0) {
    *reinterpret_cast<Run<T, kElements>*>(to) = run;
    return;
  }
#pragma unroll
  for (int element = 0; element < kElements; ++element) {
    if (element < count) {
      to[element * stride] = {static_cast<std::uint16_t>(run.words[element / 2] >> (element % 2 * 16))};
    }
  }
}

// Two floats as two elements of T, the first in the low half.
template <class T>
__device__ __forceinline__ std::uint32_t PackPair(float low, float high) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return arch::FloatsToBFloats(low, high);
  } else {
    static_assert(std::is_same_v<T, Float16>);
    return arch::FloatsToHalves(low, high);
  }
}

// Stores a run of floats times a factor as 16-bit elements.
template <class T, int kElements>
__device__ __forceinline__ void StoreScaled(T* to, std::int64_t stride, const float (&values)[kElements],
                                            float factor, int count) {
  Run<T, kElements> run;
#pragma unroll
  for (int i = 0; i < kElements; i += 2) {
    run.words[i / 2] = PackPair<T>(values[i] * factor, values[i + 1] * factor);
  }
  StoreRun<T, kElements>(to, stride, run, count);
}

// A run of stored elements as 16-bit elements of T. fp8 fits into either without rounding.
template <class T, class Stored, int kElements>
__device__ __forceinline__ Run<T, kElements> Widen(const Run<Stored, kElements>& run) {
  if constexpr (std::is_same_v<T, Stored>) {
    return run;
  } else {
    static_assert(sizeof(Stored) == 1 && sizeof(T) == 2);
    Run<T, kElements> wide;
#pragma unroll
    for (int word = 0; word < kElements / 2; ++word) {
      const std::uint32_t pair = run.words[word / 2] >> (word % 2 * 16);
      const Stored low = {static_cast<std::uint8_t>(pair)};
      const Stored high = {static_cast<std::uint8_t>(pair >> 8)};
      wide.words[word] = PackPair<T>(ToFloat(low), ToFloat(high));
    }
    return wide;
  }
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_WORDS_H_
