// Leaves of the tree, the one to go first on top.
#ifndef HYGON_BACKEND_CSRC_CACHE_EVICTION_HEAP_H_
#define HYGON_BACKEND_CSRC_CACHE_EVICTION_HEAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace hygon_backend::cache {

// Smaller goes first.
struct EvictionKey {
  std::int64_t first = 0;
  std::int64_t second = 0;

  bool operator<(const EvictionKey& other) const {
    return std::tie(first, second) < std::tie(other.first, other.second);
  }
};

// A 4-ary heap that knows where each node is, so that any node can be moved or taken out in O(log n).
class EvictionHeap {
 public:
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::uint32_t top() const { return entries_.front().node; }
  const EvictionKey& top_key() const { return entries_.front().key; }

  bool Contains(std::uint32_t node) const { return node < places_.size() && places_[node] != kNowhere; }

  // Makes room for nodes with numbers below `count`, which may throw; `Set` then does not.
  void Reserve(std::size_t count) {
    if (count <= places_.size()) return;
    const std::size_t size = std::max(count, 2 * places_.size());
    entries_.reserve(size);
    places_.resize(size, kNowhere);
  }

  // Puts a node in, or moves it to where its new key belongs.
  void Set(std::uint32_t node, EvictionKey key) {
    if (places_[node] == kNowhere) {
      entries_.push_back({key, node});
      SiftUp(entries_.size() - 1, {key, node});
    } else {
      Settle(places_[node], {key, node});
    }
  }

  // Takes a node out; nothing happens if it is not in.
  void Remove(std::uint32_t node) {
    if (!Contains(node)) return;
    const std::size_t place = places_[node];
    places_[node] = kNowhere;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (last.node != node) Settle(place, last);
  }

  // Keeps the room.
  void Clear() {
    entries_.clear();
    std::fill(places_.begin(), places_.end(), kNowhere);
  }

 private:
  struct Entry {
    EvictionKey key;
    std::uint32_t node;
  };
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr std::size_t kArity = 4;

  void Put(std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    places_[entry.node] = static_cast<std::uint32_t>(place);
  }

  void Settle(std::size_t place, const Entry& entry) {
    if (place > 0 && entry.key < entries_[(place - 1) / kArity].key) {
      SiftUp(place, entry);
    } else {
      SiftDown(place, entry);
    }
  }

  void SiftUp(std::size_t place, const Entry& entry) {
    while (place > 0) {
      const std::size_t parent = (place - 1) / kArity;
      if (!(entry.key < entries_[parent].key)) break;
      Put(place, entries_[parent]);
      place = parent;
    }
    Put(place, entry);
  }

  void SiftDown(std::size_t place, const Entry& entry) {
    for (;;) {
      const std::size_t first = place * kArity + 1;
      if (first >= entries_.size()) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + kArity, entries_.size()); ++child) {
        if (entries_[child].key < entries_[least].key) least = child;
      }
      if (!(entries_[least].key < entry.key)) break;
      Put(place, entries_[least]);
      place = least;
    }
    Put(place, entry);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_EVICTION_HEAP_H_
