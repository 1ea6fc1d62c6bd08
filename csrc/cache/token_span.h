// A read-only run of tokens or slots, and how far two runs agree.
#ifndef HYGON_BACKEND_CSRC_CACHE_TOKEN_SPAN_H_
#define HYGON_BACKEND_CSRC_CACHE_TOKEN_SPAN_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hygon_backend::cache {

struct Int64Span {
  const std::int64_t* data = nullptr;
  std::int64_t size = 0;
};

// Number of leading elements in which the two runs of n agree. The bulk goes through memcmp, which the C
// library dispatches to the widest vectors the processor has; only the block that differs is searched.
inline std::int64_t CommonPrefix(const std::int64_t* a, const std::int64_t* b, std::int64_t n) {
  constexpr std::int64_t kBlock = 512;
  std::int64_t i = 0;
  while (i < n) {
    const std::int64_t size = std::min(kBlock, n - i);
    if (std::memcmp(a + i, b + i, static_cast<std::size_t>(size) * sizeof(std::int64_t)) != 0) {
      while (a[i] == b[i]) ++i;
      return i;
    }
    i += size;
  }
  return n;
}

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_TOKEN_SPAN_H_
