#include "cache/block_manager.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/errors.h"

namespace hygon_backend::cache {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;

std::int64_t CheckedBlocks(std::int64_t num_blocks, std::int64_t block_size) {
  if (block_size < 1 || block_size > kMaxTokens) throw Reject("block_size", block_size, "in [1, 2^40]");
  if (num_blocks < 1 || num_blocks > kMaxTokens / block_size) {
    throw Reject("num_blocks", num_blocks, "in [1, 2^40 / block_size]");
  }
  return num_blocks;
}

}  // namespace

BlockManager::BlockManager(std::int64_t num_blocks, std::int64_t block_size, const HashKey& key)
    : block_size_(block_size),
      key_(key),
      blocks_(static_cast<std::size_t>(CheckedBlocks(num_blocks, block_size))),
      tokens_(static_cast<std::size_t>(num_blocks * block_size)),
      free_(num_blocks) {}

std::int64_t BlockManager::Allocate(std::int64_t seq_id, Int64Span tokens) {
  CheckNew("seq_id", seq_id);
  Sequence sequence;
  sequence.blocks = FindBlocks(tokens);
  const auto num_found = static_cast<std::int64_t>(sequence.blocks.size());
  const std::int64_t num_blocks = BlocksFor(tokens.size);
  const auto idle = std::count_if(sequence.blocks.begin(), sequence.blocks.end(),
                                  [this](std::int64_t block) { return RefCount(block) == 0; });
  CheckFree(num_blocks - num_found + idle);
  sequence.blocks.reserve(static_cast<std::size_t>(num_blocks));
  sequence.num_tokens = tokens.size;
  sequence.num_computed = num_found * block_size_;
  Sequence& placed = sequences_[seq_id] = std::move(sequence);

  for (const std::int64_t block : placed.blocks) Lend(block);
  for (std::int64_t i = num_found; i < num_blocks; ++i) {
    const std::int64_t begin = i * block_size_;
    const std::int64_t block = TakeFree();
    std::copy_n(tokens.data + begin, std::min(block_size_, tokens.size - begin), TokensOf(block));
    placed.blocks.push_back(block);
  }
  return placed.num_computed;
}

bool BlockManager::CanAllocate(std::int64_t num_tokens) const {
  if (num_tokens < 0) throw Reject("num_tokens", num_tokens, "0 or more");
  return BlocksFor(num_tokens) <= free_.size();
}

std::int64_t BlockManager::FindPrefix(Int64Span tokens) const {
  return static_cast<std::int64_t>(FindBlocks(tokens).size()) * block_size_;
}

std::vector<std::int64_t> BlockManager::FindBlocks(Int64Span tokens) const {
  std::vector<std::int64_t> found;
  Digest digest{};
  for (std::int64_t begin = 0; begin + block_size_ < tokens.size; begin += block_size_) {
    digest = DigestAfter(digest, tokens.data + begin);
    const auto entry = computed_.find(digest);
    if (entry == computed_.end()) break;
    // Whatever the hash says, other tokens are never reused.
    if (CommonPrefix(TokensOf(entry->second), tokens.data + begin, block_size_) != block_size_) break;
    found.push_back(entry->second);
  }
  return found;
}

void BlockManager::Fork(std::int64_t parent_id, std::int64_t child_id) {
  Sequence child = At(parent_id);
  CheckNew("child_id", child_id);
  const Sequence& placed = sequences_[child_id] = std::move(child);
  for (const std::int64_t block : placed.blocks) ++blocks_[static_cast<std::size_t>(block)].ref_count;
}

std::vector<BlockCopy> BlockManager::AppendSlots(std::int64_t seq_id, Int64Span tokens) {
  Sequence& sequence = At(seq_id);
  const std::int64_t in_block = sequence.num_tokens % block_size_;
  const bool copies = tokens.size > 0 && in_block > 0 && RefCount(sequence.blocks.back()) > 1;
  const std::int64_t num_blocks = BlocksFor(sequence.num_tokens + tokens.size);
  CheckFree(num_blocks - static_cast<std::int64_t>(sequence.blocks.size()) + (copies ? 1 : 0));
  std::vector<BlockCopy> result;
  result.reserve(1);
  sequence.blocks.reserve(static_cast<std::size_t>(num_blocks));

  if (copies) {
    const std::int64_t shared = sequence.blocks.back();
    const std::int64_t own = TakeFree();
    std::copy_n(TokensOf(shared), in_block, TokensOf(own));
    Return(shared);
    sequence.blocks.back() = own;
    result.emplace_back(shared, own);
  }
  for (std::int64_t done = 0; done < tokens.size;) {
    const std::int64_t offset = sequence.num_tokens % block_size_;
    if (offset == 0) sequence.blocks.push_back(TakeFree());
    const std::int64_t count = std::min(block_size_ - offset, tokens.size - done);
    std::copy_n(tokens.data + done, count, TokensOf(sequence.blocks.back()) + offset);
    sequence.num_tokens += count;
    done += count;
  }
  return result;
}

void BlockManager::MarkComputed(std::int64_t seq_id, std::int64_t num_tokens) {
  Sequence& sequence = At(seq_id);
  if (num_tokens < sequence.num_computed || num_tokens > sequence.num_tokens) {
    throw Reject("num_tokens", num_tokens,
                 "from the " + std::to_string(sequence.num_computed) + " that are computed to the " +
                     std::to_string(sequence.num_tokens) + " that the sequence has");
  }
  std::int64_t i = sequence.num_computed / block_size_;
  Digest digest{};
  if (i > 0) digest = BlockAt(sequence, i - 1).digest;
  for (; i < num_tokens / block_size_; ++i) {
    Block& block = BlockAt(sequence, i);
    if (!block.has_digest) {
      const std::int64_t number = sequence.blocks[static_cast<std::size_t>(i)];
      block.digest = DigestAfter(digest, TokensOf(number));
      // A block with the same tokens may be known already: the first one stays.
      computed_.emplace(block.digest, number);
      block.has_digest = true;
    }
    digest = block.digest;
  }
  sequence.num_computed = num_tokens;
}

void BlockManager::Free(std::int64_t seq_id) {
  const Sequence& sequence = At(seq_id);
  // From its end, so that of one sequence the later blocks, useless without the earlier, are lent first.
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) Return(*block);
  sequences_.erase(seq_id);
}

std::int64_t BlockManager::RefCount(std::int64_t block) const {
  if (block < 0 || block >= num_blocks()) {
    throw Reject("block", block, "in [0, num_blocks), num_blocks being " + std::to_string(num_blocks()));
  }
  return blocks_[static_cast<std::size_t>(block)].ref_count;
}

const BlockManager::Sequence& BlockManager::At(std::int64_t seq_id) const {
  const auto found = sequences_.find(seq_id);
  if (found == sequences_.end()) throw UnknownId("sequence " + std::to_string(seq_id) + " has no blocks");
  return found->second;
}

BlockManager::Sequence& BlockManager::At(std::int64_t seq_id) {
  return const_cast<Sequence&>(std::as_const(*this).At(seq_id));
}

BlockManager::Block& BlockManager::BlockAt(const Sequence& sequence, std::int64_t index) {
  return blocks_[static_cast<std::size_t>(sequence.blocks[static_cast<std::size_t>(index)])];
}

void BlockManager::CheckNew(const char* argument, std::int64_t seq_id) const {
  if (sequences_.count(seq_id) != 0) throw Reject(argument, seq_id, "a sequence that has no blocks yet");
}

void BlockManager::CheckFree(std::int64_t needed) const {
  if (needed <= free_.size()) return;
  throw OutOfBlocks(std::to_string(needed) + " blocks are needed, but " + std::to_string(free_.size()) +
                    " of " + std::to_string(num_blocks()) + " are free");
}

std::int64_t BlockManager::BlocksFor(std::int64_t num_tokens) const {
  return num_tokens / block_size_ + (num_tokens % block_size_ == 0 ? 0 : 1);
}

Digest BlockManager::DigestAfter(const Digest& before, const std::int64_t* tokens) const {
  SipHash low(key_);
  SipHash high({key_[1], ~key_[0]});
  for (SipHash* hash : {&low, &high}) {
    hash->Add(before[0]);
    hash->Add(before[1]);
    for (std::int64_t i = 0; i < block_size_; ++i) hash->Add(static_cast<std::uint64_t>(tokens[i]));
  }
  return {low.Finish(), high.Finish()};
}

std::int64_t BlockManager::TakeFree() noexcept {
  const std::int64_t block = free_.first();
  ForgetDigest(block);
  Lend(block);
  return block;
}

void BlockManager::Lend(std::int64_t block) noexcept {
  if (blocks_[static_cast<std::size_t>(block)].ref_count++ == 0) free_.Remove(block);
}

void BlockManager::Return(std::int64_t block) noexcept {
  Block& returned = blocks_[static_cast<std::size_t>(block)];
  if (--returned.ref_count != 0) return;
  const auto entry = returned.has_digest ? computed_.find(returned.digest) : computed_.end();
  if (entry != computed_.end() && entry->second == block) {
    free_.PushBack(block);
  } else {
    free_.PushFront(block);
  }
}

void BlockManager::ForgetDigest(std::int64_t block) noexcept {
  Block& forgotten = blocks_[static_cast<std::size_t>(block)];
  if (!forgotten.has_digest) return;
  const auto entry = computed_.find(forgotten.digest);
  if (entry != computed_.end() && entry->second == block) computed_.erase(entry);
  forgotten.has_digest = false;
}

}  // namespace hygon_backend::cache
