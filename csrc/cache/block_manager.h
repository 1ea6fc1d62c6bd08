// Blocks of a KV pool lent to sequences: reference counts, forks that copy nothing, copy on write, and reuse
// of whole computed blocks through a chain of keyed hashes.
//
// PagedAttention (Kwon et al., 2023; source document, section 1.2). A block that goes back to the free list
// keeps its tokens' hash, and can be found by it, until it is lent again: the free list gives blocks without
// a hash first, then those that were given back longest ago.
#ifndef HYGON_BACKEND_CSRC_CACHE_BLOCK_MANAGER_H_
#define HYGON_BACKEND_CSRC_CACHE_BLOCK_MANAGER_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/block_list.h"
#include "cache/hashing.h"
#include "cache/token_span.h"

namespace hygon_backend::cache {

// From one block to another, to be copied before anything is written to the second.
using BlockCopy = std::pair<std::int64_t, std::int64_t>;

class BlockManager {
 public:
  BlockManager(std::int64_t num_blocks, std::int64_t block_size, const HashKey& key);

  // Lends blocks for a new sequence; returns how many of its tokens are computed already. The last token is
  // never among them: what follows it is yet to be computed.
  std::int64_t Allocate(std::int64_t seq_id, Int64Span tokens);

  // Whether so many new tokens would find blocks, without any reuse.
  bool CanAllocate(std::int64_t num_tokens) const;

  // Number of leading tokens that `Allocate` would find computed.
  std::int64_t FindPrefix(Int64Span tokens) const;

  // Lends the parent's blocks to a new sequence, too.
  void Fork(std::int64_t parent_id, std::int64_t child_id);

  // Makes room for more tokens of a sequence; returns the copies (one at most) that must be made first.
  std::vector<BlockCopy> AppendSlots(std::int64_t seq_id, Int64Span tokens);

  // The first `num_tokens` of a sequence have their keys and values: their whole blocks can be found from
  // now.
  void MarkComputed(std::int64_t seq_id, std::int64_t num_tokens);

  // Gives the blocks of a sequence back.
  void Free(std::int64_t seq_id);

  const std::vector<std::int64_t>& BlockTable(std::int64_t seq_id) const { return At(seq_id).blocks; }
  std::int64_t NumTokens(std::int64_t seq_id) const { return At(seq_id).num_tokens; }
  std::int64_t RefCount(std::int64_t block) const;
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t block_size() const { return block_size_; }
  std::int64_t num_free_blocks() const { return free_.size(); }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequences_.size()); }

 private:
  struct Block {
    std::int64_t ref_count = 0;
    bool has_digest = false;
    Digest digest{};  // of its tokens and all before them
  };

  struct Sequence {
    std::vector<std::int64_t> blocks;
    std::int64_t num_tokens = 0;
    std::int64_t num_computed = 0;
  };

  const Sequence& At(std::int64_t seq_id) const;
  Sequence& At(std::int64_t seq_id);
  Block& BlockAt(const Sequence& sequence, std::int64_t index);
  void CheckNew(const char* argument, std::int64_t seq_id) const;
  void CheckFree(std::int64_t needed) const;
  std::int64_t BlocksFor(std::int64_t num_tokens) const;

  std::int64_t* TokensOf(std::int64_t block) { return tokens_.data() + block * block_size_; }
  const std::int64_t* TokensOf(std::int64_t block) const { return tokens_.data() + block * block_size_; }
  Digest DigestAfter(const Digest& before, const std::int64_t* tokens) const;
  std::vector<std::int64_t> FindBlocks(Int64Span tokens) const;

  std::int64_t TakeFree() noexcept;
  void Lend(std::int64_t block) noexcept;
  void Return(std::int64_t block) noexcept;
  void ForgetDigest(std::int64_t block) noexcept;

  std::int64_t block_size_;
  HashKey key_;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> tokens_;
  BlockList free_;
  std::unordered_map<Digest, std::int64_t, DigestHash> computed_;
  std::unordered_map<std::int64_t, Sequence> sequences_;
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_BLOCK_MANAGER_H_
