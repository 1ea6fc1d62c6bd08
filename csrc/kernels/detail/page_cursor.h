// Walking the pages of a sequence by difference (source document, "k_delta"; DESIGN's name as well).
//
// Keys are asked for in stages of kKeys, one after the other. Where pages hold whole stages, the offset of a
// stage follows from the last one's by a single addition: within a page a stage's length times the token
// stride, and at its end (next page - page) * block stride less what was walked. Offsets are 64-bit, since a
// pool may hold more than 2^31 elements; added to a pointer, they need no descriptor that spans the pool.
// Smaller pages, or odd ones, give each row of a stage its own page id, read one stage ahead.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_CURSOR_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_CURSOR_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "attention.h"
#include "page_table.h"

namespace hygon_backend {

// Where a key's rows lie in the key and in the value cache, in elements from the start of a head.
struct KvOffset {
  std::int64_t key;
  std::int64_t value;
};

// One thread's view: of each stage it moves `kRows` rows, kRowStep apart.
template <int kKeys, int kRows, int kRowStep>
class PageCursor {
 public:
  // Stands at the stage of key `start`, a multiple of kKeys; this thread's rows begin with `first_row`. Of
  // the sequence's table, whose first entry has offset `table`, it reads only the entries of keys from
  // `begin` to `end` - 1, of which there is one at least in the stage.
  __device__ __forceinline__ PageCursor(const AttentionParams& params, std::int64_t table, int start, int begin,
                                        int end, int first_row)
      : params_(params),
        divider_(params.block_size),
        table_(table),
        first_(start + first_row),
        begin_(begin),
        end_(end),
        whole_(params.block_size % kKeys == 0) {
    if (start >= end) return;
    if (whole_) {
      page_ = divider_.Page(start);
      slot_ = start - page_ * params.block_size;
      last_page_ = divider_.Page(end - 1);
      id_ = ReadPage(page_);
      offset_ = OffsetOf(id_, slot_ + first_row);
      PrefetchPage();
    } else {
      PrefetchRows();
    }
  }

  // Whether row n, one of this thread's, is wanted.
  __device__ __forceinline__ bool IsLive(int n) const {
    const int key = first_ + n * kRowStep;
    return key >= begin_ && key < end_;
  }

  // Where row n lies; of one that is not wanted some address that may be read.
  __device__ __forceinline__ KvOffset Offset(int n) const {
    if (whole_) {
      return {offset_.key + n * kRowStep * params_.k_token_stride,
              offset_.value + n * kRowStep * params_.v_token_stride};
    }
    const int key = first_ + n * kRowStep;
    return OffsetOf(ids_[n], key - divider_.Page(key) * params_.block_size);
  }

  __device__ __forceinline__ void Advance() {
    first_ += kKeys;
    if (!whole_) {
      PrefetchRows();
      return;
    }
    slot_ += kKeys;
    if (slot_ < params_.block_size) {
      offset_.key += kKeys * params_.k_token_stride;
      offset_.value += kKeys * params_.v_token_stride;
      return;
    }
    const std::int64_t walked = slot_ - kKeys;
    const std::int64_t pages = static_cast<std::int64_t>(next_id_) - id_;
    offset_.key += pages * params_.k_block_stride - walked * params_.k_token_stride;
    offset_.value += pages * params_.v_block_stride - walked * params_.v_token_stride;
    id_ = next_id_;
    slot_ = 0;
    ++page_;
    PrefetchPage();
  }

 private:
  __device__ __forceinline__ int ReadPage(int page) const {
    return static_cast<int>(ReadIndex(params_.block_table, params_.block_table_wide,
                                      table_ + page * params_.block_table_column_stride));
  }

  __device__ __forceinline__ void PrefetchPage() {
    if (page_ < last_page_) next_id_ = ReadPage(page_ + 1);
  }

  __device__ __forceinline__ KvOffset OffsetOf(int page_id, int slot) const {
    return {page_id * params_.k_block_stride + slot * params_.k_token_stride,
            page_id * params_.v_block_stride + slot * params_.v_token_stride};
  }

  __device__ __forceinline__ void PrefetchRows() {
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      ids_[n] = IsLive(n) ? ReadPage(divider_.Page(first_ + n * kRowStep)) : 0;
    }
  }

  const AttentionParams& params_;
  PageDivider divider_;
  std::int64_t table_;
  // Key of this thread's first row.
  int first_;
  int begin_;
  int end_;
  bool whole_;
  int page_ = 0;
  int slot_ = 0;
  int last_page_ = 0;
  int id_ = 0;
  int next_id_ = 0;
  KvOffset offset_ = {0, 0};
  int ids_[kRows] = {};
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_CURSOR_H_
