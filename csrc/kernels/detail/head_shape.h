// How a head size is cut for the matrix unit.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_HEAD_SHAPE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_HEAD_SHAPE_H_

#include <hip/hip_runtime.h>

#include <type_traits>

#include "attention.h"
#include "fragment.h"

namespace hygon_backend {

constexpr int kMaxHeadSize = 256;

// The head size of the kernel that serves one: sizes between two run in the larger, with the missing dims
// read as zero.
__host__ __device__ constexpr int KernelHeadSize(int head_size) {
  return head_size <= 64 ? 64 : head_size <= 128 ? 128 : head_size <= 192 ? 192 : kMaxHeadSize;
}

__host__ __device__ constexpr int LargerHeadSize(const AttentionParams& params) {
  return params.head_size > params.head_size_v ? params.head_size : params.head_size_v;
}

// Calls launch(size), where size is a compile-time KernelHeadSize(head_size).
template <class Launch>
void LaunchAtHeadSize(int head_size, Launch launch) {
  switch (KernelHeadSize(head_size)) {
    case 64:
      return launch(std::integral_constant<int, 64>());
    case 128:
      return launch(std::integral_constant<int, 128>());
    case 192:
      return launch(std::integral_constant<int, 192>());
    default:
      return launch(std::integral_constant<int, kMaxHeadSize>());
  }
}

template <int kHeadSize>
struct HeadShape {
  static_assert(KernelHeadSize(kHeadSize) == kHeadSize);
  // Consecutive dims of a key that one lane feeds to the matrix unit, and steps of 4 x that many.
  static constexpr int kKeyRun = 8;
  static constexpr int kKeySteps = kHeadSize / (kQuarters * kKeyRun);
  // Consecutive dims of a value that a lane loads, and blocks of 16 x that many.
  static constexpr int kValueRun = kHeadSize % 128 == 0 ? 8 : 4;
  static constexpr int kValueBlocks = kHeadSize / (kTile * kValueRun);
  static_assert(kKeySteps * kQuarters * kKeyRun == kHeadSize);
  static_assert(kValueBlocks * kTile * kValueRun == kHeadSize);
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_HEAD_SHAPE_H_
