// Rows of 16-bit elements in LDS, placed so that neither reading rows nor reading columns makes lanes wait
// for each other.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_LDS_TILE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_LDS_TILE_H_

#include <hip/hip_runtime.h>

#include "words.h"

namespace hygon_backend {

// A chunk is 16 bytes, 8 elements. Within each eight chunks of a row, 128 bytes and so all banks, a row's
// chunks are permuted: the same chunk of 8 consecutive rows lies in 8 different places, and so do 4
// consecutive chunks of a row and its successor.
template <int kHeadSize>
class LdsTile {
 public:
  static constexpr int kChunks = kHeadSize / 8;
  static_assert(kChunks % 8 == 0);

  __device__ __forceinline__ explicit LdsTile(Words<4>* memory) : memory_(memory) {}

  __device__ __forceinline__ Words<4>* Chunk(int row, int chunk) const {
    return memory_ + row * kChunks + (chunk ^ ((row & 1) * 4 + (row >> 1) % 4));
  }

  // `kCount` elements of a row from `element` on, within one chunk.
  template <int kCount>
  __device__ __forceinline__ Words<kCount / 2> Read(int row, int element) const {
    const std::uint32_t* words = Chunk(row, element / 8)->words + element % 8 / 2;
    return *reinterpret_cast<const Words<kCount / 2>*>(words);
  }

  template <class T>
  __device__ __forceinline__ T* Element(int row, int element) const {
    return reinterpret_cast<T*>(Chunk(row, element / 8)) + element % 8;
  }

 private:
  Words<4>* memory_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_LDS_TILE_H_
