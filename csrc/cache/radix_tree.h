// A compressed radix tree over token ids that says which slots of a KV pool hold their keys and values.
//
// RadixAttention (Zheng et al., "SGLang", 2024; source document, part 2). What is added to it: reuse stays
// token-granular when the pool is organised in pages of more than one token.
//
// Slots and pages. slot = page * page_size + offset, and the token at position p of a sequence always sits
// at offset p % page_size. Two sequences that part inside a page cannot share that page beyond the parting:
// the second one gets a page of its own, into which its owner copies the shared leading tokens (copy on
// write). The invariant is therefore
//
//   for every token of the tree, the page of its slot holds this token and, at the offsets before it, the
//   tokens that precede it on the path from the root,
//
// although the tree may list another page for those preceding tokens, on a node above. A match returns the
// slots of each page-sized stretch from one page, that of the deepest matched token in it.
//
// Holders of a page lie on one path, one node below the other, and leaves go first. So a page belongs to the
// topmost of them: it is protected while that node is locked, and free once that node is gone.
#ifndef HYGON_BACKEND_CSRC_CACHE_RADIX_TREE_H_
#define HYGON_BACKEND_CSRC_CACHE_RADIX_TREE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/child_table.h"
#include "cache/eviction_heap.h"
#include "cache/page_states.h"
#include "cache/token_chunk.h"
#include "cache/token_span.h"

namespace hygon_backend::cache {

// Which evictable leaf goes first.
enum class EvictionPolicy {
  kLru,       // the one whose last match or insertion lies furthest back
  kLfu,       // the one matched least often; of these the least recently used
  kFifo,      // the one inserted first
  kPriority,  // the one of the lowest priority; of these the least recently used
};

// Names a node, and no other node after that one is gone. 0 is the root, which always exists.
using NodeHandle = std::uint64_t;

struct MatchedPrefix {
  std::int64_t length = 0;
  NodeHandle node = 0;  // ends exactly after `length` tokens
};

struct Insertion {
  std::int64_t matched_length = 0;  // leading tokens that the tree held already
  NodeHandle node = 0;              // ends exactly after the inserted tokens
  // Offered pages that the tree does not hold: their tokens were there already, in other pages.
  std::vector<std::int64_t> unused_pages;
};

struct Eviction {
  std::int64_t num_tokens = 0;  // tokens the tree forgot
  std::vector<std::int64_t> pages;
};

// What tests and diagnostics see of a node.
struct NodeInfo {
  NodeHandle node = 0;
  NodeHandle parent = 0;
  std::int64_t begin = 0;  // position of its first token
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> slots;
  std::int64_t lock_ref = 0;
  std::int64_t num_children = 0;
  std::int64_t hit_count = 0;
  std::int64_t priority = 0;
};

class RadixTree {
 public:
  // `num_slots` is the size of the pool, a multiple of `page_size` in [1, 2^40].
  RadixTree(std::int64_t num_slots, std::int64_t page_size, EvictionPolicy policy);
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;
  ~RadixTree();

  // Longest prefix of `tokens` in the tree, split off as a node if it ends inside of one. Counts as a use.
  MatchedPrefix MatchPrefix(Int64Span tokens, const std::string& name_space);

  // Its length alone; changes nothing.
  std::int64_t MatchLength(Int64Span tokens, const std::string& name_space) const;

  // Number of tokens from the root to the end of a node.
  std::int64_t Depth(NodeHandle node) const { return nodes_[IndexOf(node)].end(); }

  // Writes the slots of the tokens from the root to the end of a node, `Depth(node)` of them.
  void CopySlots(NodeHandle node, std::int64_t* slots) const;

  // Makes the tree hold `tokens`, in the offered `slots` as far as it does not hold them yet.
  Insertion Insert(Int64Span tokens, Int64Span slots, const std::string& name_space, std::int64_t priority);

  // Locks or unlocks a node and all above it; returns by how much the evictable size changed, in tokens.
  std::int64_t IncLockRef(NodeHandle node);
  std::int64_t DecLockRef(NodeHandle node);

  // Removes unlocked leaves until pages for `num_tokens` are free or no unlocked leaf is left.
  Eviction Evict(std::int64_t num_tokens);

  // Forgets everything; no node may be locked.
  void Reset();

  std::int64_t page_size() const { return page_size_; }
  std::int64_t num_slots() const { return num_slots_; }
  std::int64_t total_size() const { return total_tokens_; }
  std::int64_t protected_size() const { return protected_tokens_; }
  std::int64_t evictable_size() const { return total_tokens_ - protected_tokens_; }
  std::int64_t num_pages() const { return total_pages_; }
  std::int64_t protected_pages() const { return protected_pages_; }
  std::int64_t evictable_pages() const { return total_pages_ - protected_pages_; }
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(table_.size()); }

  // All nodes but the root, in no particular order; and one of them.
  std::vector<NodeInfo> Nodes() const;
  NodeInfo Info(NodeHandle node) const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kRoot = 0;

  struct Node {
    TokenChunk* chunk = nullptr;  // owned by the nodes that lie in it together
    std::int64_t start = 0;       // where in the chunk
    std::int64_t length = 0;
    std::int64_t begin = 0;    // position in the sequence
    std::uint64_t family = 0;  // what the table of children knows the node's parent by
    std::uint64_t hash = 0;
    std::uint64_t last_access = 0;
    std::uint64_t inserted = 0;
    std::int64_t priority = 0;
    std::int64_t hit_count = 0;
    std::int64_t lock_ref = 0;   // locks of this node and of all below it
    std::int64_t own_locks = 0;  // of this node alone
    Index parent = kRoot;
    Index generation = 0;
    Index num_children = 0;
    bool alive = false;
    bool shares_first_page = false;  // with the end of its parent
    bool last_page_shared = false;   // with the beginning of one of its children

    const std::int64_t* tokens() const { return chunk->tokens() + start; }
    const std::int64_t* slots() const { return chunk->slots() + start; }
    std::int64_t end() const { return begin + length; }
    bool is_evictable_leaf() const { return num_children == 0 && lock_ref == 0; }
  };

  struct NameSpace {
    std::uint64_t family = 0;
    std::int64_t num_children = 0;
  };

  // Where a walk down the tree ended: `offset` tokens into `node`, which is all of it unless it parted there.
  struct Place {
    Index node = kRoot;
    std::int64_t offset = 0;
    std::int64_t length = 0;  // tokens from the root
  };

  Index IndexOf(NodeHandle handle) const;
  NodeHandle HandleOf(Index index) const;
  NodeInfo InfoOf(Index index) const;
  std::int64_t OffsetInPage(std::int64_t position) const { return position % page_size_; }
  std::int64_t PagesOf(const Node& node) const;
  EvictionKey KeyOf(const Node& node) const;

  Place Walk(Int64Span tokens, const std::string& name_space) const;
  template <typename Held, typename Copied>
  void VisitSlots(Index index, std::int64_t end, Held held, Copied copied) const;
  void CopySlotsUpTo(Index index, std::int64_t end, std::int64_t* slots) const;

  void CheckSpan(const char* argument, Int64Span span) const;
  void CheckOffered(Int64Span slots, std::int64_t begin, std::int64_t end) const;
  void FindUnused(const Place& place, Int64Span slots, std::int64_t length, OfferedPages& unused) const;
  bool FindAdopted(const Place& place, Int64Span slots, OfferedPages& adopted) const;
  bool IsOnPath(std::int64_t page, Index index, std::int64_t begin, std::int64_t end) const;

  // None of these fails once `Reserve(n)` has made room for n more nodes.
  void Reserve(std::size_t count);
  Index TakeNode() noexcept;
  Index SplitAt(const Place& place) noexcept;
  Index AddLeaf(Index parent, std::unique_ptr<TokenChunk> chunk, std::int64_t length, std::uint64_t family,
                bool shares_page) noexcept;
  void RemoveLeaf(Index index, std::vector<std::int64_t>& pages) noexcept;
  void Touch(Index index, std::int64_t hits, std::int64_t priority) noexcept;
  std::int64_t Lock(Index index, std::int64_t count) noexcept;
  void NoteIfEvictable(Index index) noexcept;

  std::uint64_t FamilyFor(const std::string& name_space);
  void ForgetNameSpaceChild(std::uint64_t family) noexcept;
  void FreeChunks() noexcept;

  std::int64_t num_slots_;
  std::int64_t page_size_;
  EvictionPolicy policy_;

  std::vector<Node> nodes_;
  std::vector<Index> unused_nodes_;
  ChildTable table_;
  std::unordered_map<std::string, NameSpace> name_spaces_;  // those that have nodes, but for the default one
  std::unordered_map<std::uint64_t, std::string> name_of_family_;
  std::uint64_t next_family_;
  EvictionHeap heap_;
  PageStates pages_;

  std::uint64_t clock_ = 0;
  std::int64_t total_tokens_ = 0;
  std::int64_t protected_tokens_ = 0;
  std::int64_t total_pages_ = 0;
  std::int64_t protected_pages_ = 0;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_RADIX_TREE_H_
