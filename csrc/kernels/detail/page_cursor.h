// Walking the pages of a sequence (source document, section 5.3, "k_delta").
//
// Keys are asked for in stages of kKeys, one after the other. Where pages hold whole stages, the offset of a
// stage follows from the last one's by difference: within a page a stage's length times the token stride, at
// its end (next page - page) * block stride less what was walked. Where a page holds all of a thread's rows
// of a stage, one product a stage finds them. Still smaller pages, or odd ones, give each row an id of its
// own. Page ids are read a stage ahead.
//
// Offsets are 64-bit, since a pool may hold more than 2^31 elements; being added to a pointer, they need no
// buffer descriptor that would have to span the pool.
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

// One thread's view: of each stage it moves kRows consecutive rows. With `kNarrow` all strides fit into 32
// bits, so that a product is one instruction.
template <int kKeys, int kRows, bool kNarrow>
class PageCursor {
 public:
  // Stands at the stage of key `start`, a multiple of kKeys; this thread's rows begin with `first_row`. Of
  // the sequence's table, whose first entry has offset `table`, it reads only the entries of keys from
  // `begin` to `end` - 1.
  __device__ __forceinline__ PageCursor(const AttentionParams& params, std::int64_t table, int start,
                                        int begin, int end, int first_row)
      : params_(params),
        table_(static_cast<const std::int32_t*>(params.block_table) + table * params.table_words),
        key_(start + first_row),
        first_row_(first_row),
        begin_(begin),
        end_(end),
        holds_stages_(params.block_size % kKeys == 0),
        holds_rows_(params.block_size % kRows == 0) {
    if (start >= end) return;
    if (holds_stages_) {
      page_ = PageOf(params, start);
      slot_ = start - page_ * params.block_size;
      id_ = ReadPage(page_);
      first_ = OffsetOf(id_, slot_ + first_row);
      PrefetchPage();
    } else if (holds_rows_) {
      PrefetchRow();
      Step();
    } else {
      PrefetchRows();
    }
  }

  // Whether all rows of the stage are wanted, which is the same for all threads.
  __device__ __forceinline__ bool AllLive() const {
    const int start = key_ - first_row_;
    return start >= begin_ && start + kKeys <= end_;
  }

  // Whether row n, one of this thread's, is wanted.
  __device__ __forceinline__ bool IsLive(int n) const { return key_ + n >= begin_ && key_ + n < end_; }

  // Calls visit(n, offset) for this thread's rows; a row that is not wanted gets some offset that may be
  // read.
  template <class Visit>
  __device__ __forceinline__ void ForEachRow(Visit visit) const {
    if (holds_rows_) {
      KvOffset offset = first_;
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        visit(n, offset);
        offset.key += params_.k_token_stride;
        offset.value += params_.v_token_stride;
      }
    } else {
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        visit(n, OffsetOf(ids_[n], key_ + n - PageOf(params_, key_ + n) * params_.block_size));
      }
    }
  }

  __device__ __forceinline__ void Advance() {
    key_ += kKeys;
    if (key_ - first_row_ >= end_) return;
    if (holds_stages_) {
      WalkByDifference();
    } else if (holds_rows_) {
      Step();
    } else {
      PrefetchRows();
    }
  }

 private:
  __device__ __forceinline__ int ReadPage(int page) const {
    return table_[static_cast<std::int64_t>(page) * params_.table_step];
  }

  __device__ __forceinline__ static std::int64_t Product(int index, std::int64_t stride) {
    if constexpr (kNarrow) {
      return static_cast<std::int64_t>(index) * static_cast<int>(stride);
    } else {
      return index * stride;
    }
  }

  __device__ __forceinline__ KvOffset OffsetOf(int page_id, int slot) const {
    return {Product(page_id, params_.k_block_stride) + Product(slot, params_.k_token_stride),
            Product(page_id, params_.v_block_stride) + Product(slot, params_.v_token_stride)};
  }

  __device__ __forceinline__ void WalkByDifference() {
    slot_ += kKeys;
    if (slot_ < params_.block_size) {
      first_.key += Product(kKeys, params_.k_token_stride);
      first_.value += Product(kKeys, params_.v_token_stride);
      return;
    }
    const int walked = slot_ - kKeys;
    const int pages = next_id_ - id_;
    first_.key += Product(pages, params_.k_block_stride) - Product(walked, params_.k_token_stride);
    first_.value += Product(pages, params_.v_block_stride) - Product(walked, params_.v_token_stride);
    id_ = next_id_;
    slot_ = 0;
    ++page_;
    PrefetchPage();
  }

  __device__ __forceinline__ void PrefetchPage() {
    if ((page_ + 1) * params_.block_size < end_) next_id_ = ReadPage(page_ + 1);
  }

  // Goes to the rows of the page read ahead, and reads the next stage's.
  __device__ __forceinline__ void Step() {
    first_ = OffsetOf(next_id_, key_ - PageOf(params_, key_) * params_.block_size);
    key_ += kKeys;
    PrefetchRow();
    key_ -= kKeys;
  }

  __device__ __forceinline__ void PrefetchRow() {
    const bool live = key_ + kRows > begin_ && key_ < end_;
    next_id_ = live ? ReadPage(PageOf(params_, key_)) : 0;
  }

  __device__ __forceinline__ void PrefetchRows() {
#pragma unroll
    for (int n = 0; n < kRows; ++n) ids_[n] = IsLive(n) ? ReadPage(PageOf(params_, key_ + n)) : 0;
  }

  const AttentionParams& params_;
  const std::int32_t* table_;
  // Key of this thread's first row.
  int key_;
  int first_row_;
  int begin_;
  int end_;
  bool holds_stages_;
  bool holds_rows_;
  int page_ = 0;
  int slot_ = 0;
  int id_ = 0;
  int next_id_ = 0;
  // Of this thread's first row, where one page holds all of them.
  KvOffset first_ = {0, 0};
  int ids_[kRows] = {};
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGE_CURSOR_H_
