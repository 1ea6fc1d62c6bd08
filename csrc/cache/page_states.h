// Which pages of the pool the tree holds, and how pages change hands all at once or not at all.
#ifndef HYGON_BACKEND_CSRC_CACHE_PAGE_STATES_H_
#define HYGON_BACKEND_CSRC_CACHE_PAGE_STATES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hygon_backend::cache {

enum class PageState : std::uint8_t {
  kFree,
  kHeld,
  kOffered,  // within one insertion: met once already
};

class PageStates {
 public:
  explicit PageStates(std::int64_t num_pages)
      : states_(static_cast<std::size_t>(num_pages), PageState::kFree) {}

  PageState Get(std::int64_t page) const { return states_[static_cast<std::size_t>(page)]; }
  void Set(std::int64_t page, PageState state) { states_[static_cast<std::size_t>(page)] = state; }
  void Clear() { std::fill(states_.begin(), states_.end(), PageState::kFree); }

 private:
  std::vector<PageState> states_;
};

// Free pages that an insertion has met. They are free again when this goes, unless they are kept.
class OfferedPages {
 public:
  explicit OfferedPages(PageStates& states) : states_(states) {}
  OfferedPages(const OfferedPages&) = delete;
  OfferedPages& operator=(const OfferedPages&) = delete;
  ~OfferedPages() { SetAll(PageState::kFree); }

  void Add(std::int64_t page) {
    pages_.push_back(page);
    states_.Set(page, PageState::kOffered);
  }

  void Keep() noexcept {
    SetAll(PageState::kHeld);
    pages_.clear();
  }

  const std::vector<std::int64_t>& pages() const { return pages_; }

 private:
  void SetAll(PageState state) noexcept {
    for (const std::int64_t page : pages_) states_.Set(page, state);
  }

  PageStates& states_;
  std::vector<std::int64_t> pages_;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_PAGE_STATES_H_
