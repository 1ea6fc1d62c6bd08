// How a head size is cut for the matrix unit.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_HEAD_SHAPE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_HEAD_SHAPE_H_

#include "fragment.h"

namespace hygon_backend {

constexpr int kMaxHeadSize = 256;

// Sizes between two of the instantiated ones run in the larger, with the missing dims read as zero.
template <int kHeadSize>
struct HeadShape {
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
