// Finding a token's page.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "attention.h"

namespace hygon_backend {

// Reads element `offset` of an array of 32- or 64-bit integers.
__device__ __forceinline__ std::int64_t ReadIndex(const void* array, bool wide, std::int64_t offset) {
  return wide ? static_cast<const std::int64_t*>(array)[offset]
              : static_cast<const std::int32_t*>(array)[offset];
}

// Readies the params for PageOf, and for reading a page's id as a word of the table.
//
// A token's page is found by a multiplication in place of a division (Granlund and Montgomery, 1994), exact
// for positions below 2^31: token * factor >> shift.
inline void SetPages(AttentionParams& params) {
  params.page_shift = 31;
  while ((std::int64_t{1} << (params.page_shift - 31)) < params.block_size) ++params.page_shift;
  const std::uint64_t power = std::uint64_t{1} << params.page_shift;
  params.page_factor = static_cast<std::uint32_t>((power + params.block_size - 1) / params.block_size);
  // Page ids have 31 bits, so of a wide one the low word is all. Little-endian, as every target is.
  params.table_words = params.block_table_wide ? 2 : 1;
  params.table_step = static_cast<int>(params.block_table_column_stride) * params.table_words;
}

__device__ __forceinline__ int PageOf(const AttentionParams& params, int token) {
  return static_cast<int>((static_cast<std::uint64_t>(token) * params.page_factor) >> params.page_shift);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_TABLE_H_
