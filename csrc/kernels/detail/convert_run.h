// Moving short runs of elements between tensors of different element types.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_CONVERT_RUN_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_CONVERT_RUN_H_

#include <hip/hip_runtime.h>

#include <cstdint>
#include <type_traits>

#include "numeric.h"

namespace hygon_backend {

constexpr int kVectorBytes = 16;

// Elements that one thread moves: a whole vector of the wider of the two types.
template <class A, class B>
constexpr int kRunElements = kVectorBytes / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

// Aligned to its size, so that a copy is one load or store.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) ElementRun {
  T elements[kCount];
};

// Converts with a scale in between; equal types without a scale keep all bits, those of a NaN included.
template <class To, class From, class Scale>
__device__ __forceinline__ To ConvertElement(From from, bool scaled, Scale scale) {
  if constexpr (std::is_same_v<To, From>) {
    if (!scaled) return from;
  }
  return FromFloat<To>(scaled ? scale(ToFloat(from)) : ToFloat(from));
}

// Moves `count` elements with any strides, or with `vector` a whole run that is dense and aligned.
template <class To, class From, class Scale>
__device__ __forceinline__ void ConvertRun(To* to, std::int64_t to_stride, const From* from,
                                           std::int64_t from_stride, int count, bool vector, bool scaled,
                                           Scale scale) {
  constexpr int kCount = kRunElements<To, From>;
  if (vector) {
    const auto source = *reinterpret_cast<const ElementRun<From, kCount>*>(from);
    ElementRun<To, kCount> target;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      target.elements[i] = ConvertElement<To>(source.elements[i], scaled, scale);
    }
    *reinterpret_cast<ElementRun<To, kCount>*>(to) = target;
    return;
  }
  for (int i = 0; i < count; ++i) {
    to[i * to_stride] = ConvertElement<To>(from[i * from_stride], scaled, scale);
  }
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_CONVERT_RUN_H_
