// Finding a token's page.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

namespace hygon_backend {

// Reads element `offset` of an array of 32- or 64-bit integers.
__device__ __forceinline__ std::int64_t ReadIndex(const void* array, bool wide, std::int64_t offset) {
  return wide ? static_cast<const std::int64_t*>(array)[offset]
              : static_cast<const std::int32_t*>(array)[offset];
}

// Splits a token's position into page and slot. Most page sizes are powers of two, which saves the
// division; the branch is the same for all lanes.
class PageDivider {
 public:
  __device__ __forceinline__ explicit PageDivider(int block_size)
      : block_size_(block_size), shift_((block_size & (block_size - 1)) == 0 ? Log2(block_size) : -1) {}

  __device__ __forceinline__ int Page(int token) const {
    return shift_ >= 0 ? token >> shift_ : token / block_size_;
  }

 private:
  __device__ static __forceinline__ int Log2(int power) {
    int shift = 0;
    while ((1 << shift) < power) ++shift;
    return shift;
  }

  int block_size_;
  int shift_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_
