// Memory of one insertion: its tokens and its slots. The nodes that splits make of it share it, so that a
// split copies nothing.
#ifndef HYGON_BACKEND_CSRC_CACHE_TOKEN_CHUNK_H_
#define HYGON_BACKEND_CSRC_CACHE_TOKEN_CHUNK_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cache/token_span.h"

namespace hygon_backend::cache {

class TokenChunk {
 public:
  // Copies both runs, which are equally long and not empty.
  TokenChunk(Int64Span tokens, const std::int64_t* slots)
      : tokens_(Copy(tokens.data, tokens.size)), slots_(nullptr), live_(tokens.size), capacity_(tokens.size) {
    try {
      slots_ = Copy(slots, tokens.size);
    } catch (...) {
      std::free(tokens_);
      throw;
    }
  }
  TokenChunk(const TokenChunk&) = delete;
  TokenChunk& operator=(const TokenChunk&) = delete;
  ~TokenChunk() {
    std::free(tokens_);
    std::free(slots_);
  }

  const std::int64_t* tokens() const { return tokens_; }
  const std::int64_t* slots() const { return slots_; }

  // Forgets the last tokens, those of a leaf that is gone: a chunk's nodes lie one below the other, so they
  // go from its end. True when none is left. Memory returns to the system once half of it is unused.
  bool Release(std::int64_t tokens) {
    live_ -= tokens;
    if (live_ == 0) return true;
    if (2 * live_ <= capacity_ && capacity_ > kWorthShrinking) {
      Shrink(tokens_);
      Shrink(slots_);
      capacity_ = live_;
    }
    return false;
  }

 private:
  static constexpr std::int64_t kWorthShrinking = 64;

  static std::int64_t* Copy(const std::int64_t* from, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
    auto* to = static_cast<std::int64_t*>(std::malloc(bytes));
    if (to == nullptr) throw std::bad_alloc();
    std::memcpy(to, from, bytes);
    return to;
  }

  // Where the system cannot, the larger block simply stays.
  void Shrink(std::int64_t*& words) {
    void* smaller = std::realloc(words, static_cast<std::size_t>(live_) * sizeof(std::int64_t));
    if (smaller != nullptr) words = static_cast<std::int64_t*>(smaller);
  }

  std::int64_t* tokens_;
  std::int64_t* slots_;
  std::int64_t live_;
  std::int64_t capacity_;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_TOKEN_CHUNK_H_
