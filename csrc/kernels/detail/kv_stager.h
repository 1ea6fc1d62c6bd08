// Bringing stages of keys and values into LDS, for all waves of a block, one stage ahead of its use.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_KV_STAGER_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_KV_STAGER_H_

#include <hip/hip_runtime.h>

#include <cstdint>
#include <type_traits>

#include "arch/copies.h"
#include "attention.h"
#include "lds_tile.h"
#include "page_cursor.h"
#include "words.h"

namespace hygon_backend {

// In place of a stored type: rows with any strides, of the type that the params name, read element by
// element.
struct AnyStored {};

// A stage is `kKeys` rows of keys and of values, `kHeadSize` elements of T each; what lies outside the wanted
// keys or past the head size is zero.
//
// Use: Fetch() begins to bring a stage and steps on to the next; Deliver() puts it into LDS, where it is
// after a barrier that follows Arrive().
template <class T, class Stored, int kHeadSize, int kKeys, int kThreads>
class KvStager {
  static constexpr int kChunks = LdsTile<kHeadSize>::kChunks;
  static constexpr int kElements = 8;
  static constexpr int kItems = kKeys * kChunks;
  static constexpr bool kStrided = std::is_same_v<Stored, AnyStored>;
  // Whether stored bytes go to LDS as they are, by copies that pass no register.
  static constexpr bool kAsync = arch::kHasAsyncCopies && std::is_same_v<T, Stored>;
  using Element = std::conditional_t<kStrided, T, Stored>;
  using Loaded = Run<Element, kElements>;

  // Thread t moves chunks t % kColumns, that + kColumns, ... of kRows rows from t / kColumns * kRows on.
  static constexpr int kColumns = (kChunks & (kChunks - 1)) == 0 ? kChunks : 8;
  static constexpr int kParts = kChunks / kColumns;
  static constexpr int kRowThreads = kThreads / kColumns < kKeys ? kThreads / kColumns : kKeys;
  static constexpr int kRows = kKeys / kRowThreads;
  static_assert(kRows * kRowThreads == kKeys && kParts * kColumns == kChunks);

 public:
  // 16-byte chunks of LDS that one stage of keys, or of values, takes.
  static constexpr int kStageChunks = kItems;

  // `table` is the offset of the sequence's first page id; see PageCursor for `start`, `begin` and `end`.
  __device__ __forceinline__ KvStager(const AttentionParams& params, int kv_head, std::int64_t table,
                                      int start, int begin, int end)
      : params_(params),
        keys_(static_cast<const char*>(params.k_cache) + kv_head * params.k_head_stride * ElementSize()),
        values_(static_cast<const char*>(params.v_cache) + kv_head * params.v_head_stride * ElementSize()),
        row_(static_cast<int>(threadIdx.x) / kColumns * kRows),
        column_(static_cast<int>(threadIdx.x) % kColumns),
        cursor_(params, table, start, begin, end, row_) {}

  __device__ __forceinline__ void Fetch(const LdsTile<kHeadSize>& keys, const LdsTile<kHeadSize>& values) {
    // More threads than chunks: some have nothing to do.
    if (row_ < kKeys) {
      if (cursor_.AllLive() && params_.head_size == kHeadSize && params_.head_size_v == kHeadSize) {
        FetchRows<true>(keys, values);
      } else {
        FetchRows<false>(keys, values);
      }
    }
    cursor_.Advance();
  }

  __device__ __forceinline__ void Deliver(const LdsTile<kHeadSize>& keys,
                                          const LdsTile<kHeadSize>& values) const {
    if constexpr (!kAsync) {
      if (row_ >= kKeys) return;
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int row = row_ + n;
          const int chunk = column_ + part * kColumns;
          *keys.Chunk(row, chunk) = Widen<T, Element, kElements>(loaded_keys_[n][part]);
          *values.Chunk(row, chunk) = Widen<T, Element, kElements>(loaded_values_[n][part]);
        }
      }
    }
  }

  __device__ __forceinline__ void Arrive() const {
    if constexpr (kAsync) arch::WaitForCopies();
  }

 private:
  template <bool kAllLive>
  __device__ __forceinline__ void FetchRows(const LdsTile<kHeadSize>& keys,
                                            const LdsTile<kHeadSize>& values) {
    cursor_.ForEachRow([&](int n, const KvOffset& offset) {
      const bool live = kAllLive || cursor_.IsLive(n);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int chunk = column_ + part * kColumns;
        const int dim = chunk * kElements;
        const bool live_key = kAllLive || (live && dim < params_.head_size);
        const bool live_value = kAllLive || (live && dim < params_.head_size_v);
        if constexpr (kAsync) {
          const int row = row_ + n;
          arch::CopyToShared(keys.Chunk(row, chunk), reinterpret_cast<const T*>(keys_) + offset.key + dim,
                             live_key);
          arch::CopyToShared(values.Chunk(row, chunk),
                             reinterpret_cast<const T*>(values_) + offset.value + dim, live_value);
        } else {
          loaded_keys_[n][part] = live_key ? LoadKey(offset.key, dim) : Loaded{};
          loaded_values_[n][part] = live_value ? LoadValue(offset.value, dim) : Loaded{};
        }
      }
    });
  }

  __device__ __forceinline__ std::int64_t ElementSize() const {
    if constexpr (kStrided) {
      return params_.cache_type == ElementType::kFloat8E4M3 || params_.cache_type == ElementType::kFloat8E5M2
                 ? 1
                 : 2;
    } else {
      return sizeof(Stored);
    }
  }

  __device__ __forceinline__ Loaded LoadKey(std::int64_t row, int dim) const {
    if constexpr (kStrided) {
      // A run of 8 lies within one pack, since packs hold whole runs.
      const std::int64_t first =
          row + dim / params_.k_pack * params_.k_pack_stride + dim % params_.k_pack * params_.k_dim_stride;
      return LoadStrided(keys_, first, params_.k_dim_stride, params_.head_size - dim);
    } else {
      return LoadRun<Stored, kElements, true>(reinterpret_cast<const Stored*>(keys_) + row + dim, 1,
                                              kElements);
    }
  }

  __device__ __forceinline__ Loaded LoadValue(std::int64_t row, int dim) const {
    if constexpr (kStrided) {
      return LoadStrided(values_, row + dim * params_.v_dim_stride, params_.v_dim_stride,
                         params_.head_size_v - dim);
    } else {
      return LoadRun<Stored, kElements, true>(reinterpret_cast<const Stored*>(values_) + row + dim, 1,
                                              kElements);
    }
  }

  __device__ __forceinline__ Loaded LoadStrided(const char* from, std::int64_t first, std::int64_t stride,
                                                int count) const {
    switch (params_.cache_type) {
      case ElementType::kFloat8E4M3:
        return LoadAndWiden<Float8E4M3>(from, first, stride, count);
      case ElementType::kFloat8E5M2:
        return LoadAndWiden<Float8E5M2>(from, first, stride, count);
      default:
        return LoadAndWiden<T>(from, first, stride, count);
    }
  }

  template <class From>
  __device__ __forceinline__ Loaded LoadAndWiden(const char* from, std::int64_t first, std::int64_t stride,
                                                 int count) const {
    return Widen<T, From, kElements>(
        LoadRun<From, kElements, false>(reinterpret_cast<const From*>(from) + first, stride, count));
  }

  const AttentionParams& params_;
  const char* keys_;
  const char* values_;
  int row_;
  int column_;
  PageCursor<kKeys, kRows, !kStrided> cursor_;
  Loaded loaded_keys_[kRows][kParts];
  Loaded loaded_values_[kRows][kParts];
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_KV_STAGER_H_
