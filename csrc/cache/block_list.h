// Free blocks in the order in which they are lent, any of which can be taken out.
#ifndef HYGON_BACKEND_CSRC_CACHE_BLOCK_LIST_H_
#define HYGON_BACKEND_CSRC_CACHE_BLOCK_LIST_H_

#include <cstdint>
#include <vector>

namespace hygon_backend::cache {

// A circular doubly linked list through an array; the entry after the last block is its head.
class BlockList {
 public:
  // Holds the blocks 0 to num_blocks - 1, in this order.
  explicit BlockList(std::int64_t num_blocks)
      : links_(static_cast<std::size_t>(num_blocks) + 1), head_(num_blocks), size_(num_blocks) {
    for (std::int64_t block = 0; block <= num_blocks; ++block) {
      At(block) = {block == 0 ? num_blocks : block - 1, block == num_blocks ? 0 : block + 1};
    }
  }

  std::int64_t size() const { return size_; }
  std::int64_t first() const { return links_[static_cast<std::size_t>(head_)].next; }

  void PushFront(std::int64_t block) { InsertBefore(At(head_).next, block); }
  void PushBack(std::int64_t block) { InsertBefore(head_, block); }

  void Remove(std::int64_t block) {
    const Link link = At(block);
    At(link.previous).next = link.next;
    At(link.next).previous = link.previous;
    --size_;
  }

 private:
  struct Link {
    std::int64_t previous;
    std::int64_t next;
  };

  Link& At(std::int64_t block) { return links_[static_cast<std::size_t>(block)]; }

  void InsertBefore(std::int64_t next, std::int64_t block) {
    const std::int64_t previous = At(next).previous;
    At(block) = {previous, next};
    At(previous).next = block;
    At(next).previous = block;
    ++size_;
  }

  std::vector<Link> links_;
  std::int64_t head_;
  std::int64_t size_;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_BLOCK_LIST_H_
