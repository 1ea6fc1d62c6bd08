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

// Finds the page of a token's position by a multiplication in place of a division (Granlund and Montgomery,
// 1994): exact for positions below 2^31.
class PageDivider {
 public:
  __device__ __forceinline__ explicit PageDivider(int block_size) : shift_(31) {
    while ((std::int64_t{1} << (shift_ - 31)) < block_size) ++shift_;
    factor_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + block_size - 1) / block_size);
  }

  __device__ __forceinline__ int Page(int token) const {
    return static_cast<int>((static_cast<std::uint64_t>(token) * factor_) >> shift_);
  }

 private:
  int shift_;
  std::uint32_t factor_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_
