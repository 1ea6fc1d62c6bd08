// Finds the child of a node by the first token of its edge: one table for the whole tree.
#ifndef HYGON_BACKEND_CSRC_CACHE_CHILD_TABLE_H_
#define HYGON_BACKEND_CSRC_CACHE_CHILD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/hashing.h"

namespace hygon_backend::cache {

// Open addressing with linear probing; a removal closes its gap, so no tombstones pile up. An entry is the
// node's number and its hash. What it stands for is asked of the caller, who has the nodes.
class ChildTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  ChildTable() : key_(RandomHashKey()), entries_(kSmallest) {}

  // `parent` is a number that no two edges with the same first token share.
  std::uint64_t Hash(std::uint64_t parent, std::int64_t token) const {
    return Mix(static_cast<std::uint64_t>(token) ^ key_[0], Mix(parent ^ key_[1], 0x9e3779b97f4a7c15u) | 1);
  }

  // The node for which `is_it(node)` holds, or kNone.
  template <typename Predicate>
  std::uint32_t Find(std::uint64_t hash, Predicate is_it) const {
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t i = hash & mask; entries_[i].node != kNone; i = (i + 1) & mask) {
      if (entries_[i].hash == hash && is_it(entries_[i].node)) return entries_[i].node;
    }
    return kNone;
  }

  // Makes room for `count` more, which may throw for lack of memory; `Insert` then does not.
  void Reserve(std::size_t count) {
    std::size_t size = entries_.size();
    while (4 * (count_ + count) > 3 * size) size *= 2;
    if (size == entries_.size()) return;
    std::vector<Entry> bigger(size);
    for (const Entry& entry : entries_) {
      if (entry.node != kNone) Place(bigger, entry);
    }
    entries_.swap(bigger);
  }

  void Insert(std::uint64_t hash, std::uint32_t node) {
    Place(entries_, {hash, node});
    ++count_;
  }

  // Puts another node in a node's place.
  void Replace(std::uint64_t hash, std::uint32_t node, std::uint32_t by) {
    entries_[PlaceOf(hash, node)].node = by;
  }

  void Remove(std::uint64_t hash, std::uint32_t node) {
    const std::size_t mask = entries_.size() - 1;
    std::size_t gap = PlaceOf(hash, node);
    for (std::size_t i = (gap + 1) & mask; entries_[i].node != kNone; i = (i + 1) & mask) {
      // An entry may move back to the gap unless its home lies behind it.
      if (((i - entries_[i].hash) & mask) >= ((i - gap) & mask)) {
        entries_[gap] = entries_[i];
        gap = i;
      }
    }
    entries_[gap] = Entry{};
    --count_;
  }

  std::size_t size() const { return count_; }

  void Clear() {
    entries_.assign(kSmallest, Entry{});
    count_ = 0;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t node = kNone;
  };
  static constexpr std::size_t kSmallest = 64;

  static void Place(std::vector<Entry>& entries, const Entry& entry) {
    const std::size_t mask = entries.size() - 1;
    std::size_t i = entry.hash & mask;
    while (entries[i].node != kNone) i = (i + 1) & mask;
    entries[i] = entry;
  }

  std::size_t PlaceOf(std::uint64_t hash, std::uint32_t node) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i = hash & mask;
    while (entries_[i].node != node) i = (i + 1) & mask;
    return i;
  }

  HashKey key_;
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_CHILD_TABLE_H_
