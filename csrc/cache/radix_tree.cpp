#include "cache/radix_tree.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "cache/errors.h"

namespace hygon_backend::cache {
namespace {

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 40;
constexpr std::size_t kMaxNodes = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kNoPriority = std::numeric_limits<std::int64_t>::min();

// A node is known to the table by its number; the root is known by these, one for each namespace.
constexpr std::uint64_t kDefaultFamily = std::uint64_t{1} << 32;
constexpr std::uint64_t kNoFamily = ~std::uint64_t{0};

std::int64_t CheckedSlots(std::int64_t num_slots, std::int64_t page_size) {
  if (page_size < 1 || page_size > kMaxSlots) throw Reject("page_size", page_size, "in [1, 2^40]");
  if (num_slots < 1 || num_slots > kMaxSlots || num_slots % page_size != 0) {
    throw Reject("num_slots", num_slots,
                 "a multiple of page_size (" + std::to_string(page_size) + ") in [1, 2^40]");
  }
  return num_slots;
}

InvalidArgument HeldElsewhere(std::int64_t page) {
  return InvalidArgument("slots offers page " + std::to_string(page) +
                         ", but the tree holds it for other tokens");
}

InvalidArgument OfferedTwice(std::int64_t page) {
  return InvalidArgument("slots offers page " + std::to_string(page) + " twice");
}

// Keeps the amortised cost of growing by a few at a time.
template <typename T>
void ReserveMore(std::vector<T>& vector, std::size_t count) {
  const std::size_t needed = vector.size() + count;
  if (needed > vector.capacity()) vector.reserve(std::max(needed, 2 * vector.capacity()));
}

}  // namespace

RadixTree::RadixTree(std::int64_t num_slots, std::int64_t page_size, EvictionPolicy policy)
    : num_slots_(CheckedSlots(num_slots, page_size)),
      page_size_(page_size),
      policy_(policy),
      nodes_(1),
      next_family_(kDefaultFamily + 1),
      pages_(num_slots / page_size) {
  nodes_[kRoot].alive = true;
}

RadixTree::~RadixTree() { FreeChunks(); }

// ---- Reading

RadixTree::Place RadixTree::Walk(Int64Span tokens, const std::string& name_space) const {
  Place place;
  std::uint64_t family = kDefaultFamily;
  if (!name_space.empty()) {
    const auto found = name_spaces_.find(name_space);
    if (found == name_spaces_.end()) return place;
    family = found->second.family;
  }
  while (place.length < tokens.size) {
    const std::int64_t* rest = tokens.data + place.length;
    const Index child = table_.Find(table_.Hash(family, *rest), [&](Index index) {
      return nodes_[index].family == family && *nodes_[index].tokens() == *rest;
    });
    if (child == ChildTable::kNone) break;
    const Node& node = nodes_[child];
    place.node = child;
    place.offset = CommonPrefix(node.tokens(), rest, std::min(node.length, tokens.size - place.length));
    place.length += place.offset;
    if (place.offset < node.length) break;
    family = child;
  }
  return place;
}

std::int64_t RadixTree::MatchLength(Int64Span tokens, const std::string& name_space) const {
  CheckSpan("tokens", tokens);
  return Walk(tokens, name_space).length;
}

// Calls `held(begin, count, slots)` for stretches of positions whose slots a node lists, and
// `copied(begin, count, first_slot)` for those that a page further down holds copies of; from position
// `end`, within the node or at its end, up to the root.
template <typename Held, typename Copied>
void RadixTree::VisitSlots(Index index, std::int64_t end, Held held, Copied copied) const {
  for (; index != kRoot && end > 0; index = nodes_[index].parent) {
    const Node& node = nodes_[index];
    if (node.begin >= end) continue;
    held(node.begin, end - node.begin, node.slots());
    end = node.begin;
    const std::int64_t in_page = OffsetInPage(node.begin);
    if (in_page == 0 || node.shares_first_page) continue;
    copied(node.begin - in_page, in_page, node.slots()[0] - in_page);
    end -= in_page;
  }
}

void RadixTree::CopySlotsUpTo(Index index, std::int64_t end, std::int64_t* slots) const {
  VisitSlots(
      index, end,
      [slots](std::int64_t begin, std::int64_t count, const std::int64_t* held) {
        std::copy_n(held, count, slots + begin);
      },
      [slots](std::int64_t begin, std::int64_t count, std::int64_t first) {
        for (std::int64_t i = 0; i < count; ++i) slots[begin + i] = first + i;
      });
}

void RadixTree::CopySlots(NodeHandle node, std::int64_t* slots) const {
  const Index index = IndexOf(node);
  CopySlotsUpTo(index, nodes_[index].end(), slots);
}

RadixTree::Index RadixTree::IndexOf(NodeHandle handle) const {
  const auto index = static_cast<Index>(handle);
  if (index >= nodes_.size() || !nodes_[index].alive || HandleOf(index) != handle) {
    throw UnknownId("node " + std::to_string(handle) + " is not in the tree, or no longer");
  }
  return index;
}

NodeHandle RadixTree::HandleOf(Index index) const {
  return static_cast<NodeHandle>(nodes_[index].generation) << 32 | index;
}

NodeInfo RadixTree::InfoOf(Index index) const {
  const Node& node = nodes_[index];
  NodeInfo info;
  info.node = HandleOf(index);
  info.parent = HandleOf(node.parent);
  info.begin = node.begin;
  if (index != kRoot) {
    info.tokens.assign(node.tokens(), node.tokens() + node.length);
    info.slots.assign(node.slots(), node.slots() + node.length);
  }
  info.lock_ref = index == kRoot ? node.own_locks : node.lock_ref;
  info.num_children = node.num_children;
  info.hit_count = node.hit_count;
  info.priority = node.priority;
  return info;
}

NodeInfo RadixTree::Info(NodeHandle node) const { return InfoOf(IndexOf(node)); }

std::vector<NodeInfo> RadixTree::Nodes() const {
  std::vector<NodeInfo> all;
  for (Index index = 1; index < nodes_.size(); ++index) {
    if (nodes_[index].alive) all.push_back(InfoOf(index));
  }
  return all;
}

// Pages that this node is the topmost holder of.
std::int64_t RadixTree::PagesOf(const Node& node) const {
  const std::int64_t first = node.begin / page_size_;
  const std::int64_t last = (node.end() - 1) / page_size_;
  return last - first + (node.shares_first_page ? 0 : 1);
}

EvictionKey RadixTree::KeyOf(const Node& node) const {
  const auto used = static_cast<std::int64_t>(node.last_access);
  switch (policy_) {
    case EvictionPolicy::kLfu:
      return {node.hit_count, used};
    case EvictionPolicy::kFifo:
      return {static_cast<std::int64_t>(node.inserted), 0};
    case EvictionPolicy::kPriority:
      return {node.priority, used};
    case EvictionPolicy::kLru:
      break;
  }
  return {used, 0};
}

// ---- What callers offer

void RadixTree::CheckSpan(const char* argument, Int64Span span) const {
  if (span.size > num_slots_) {
    throw InvalidArgument(std::string(argument) + " has " + std::to_string(span.size) +
                          " elements, but must have at most as many as the pool has slots, " +
                          std::to_string(num_slots_));
  }
}

// The slots of positions [begin, end), all of one page-sized stretch, must be of one page and in order.
void RadixTree::CheckOffered(Int64Span slots, std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = slots.data[begin];
  const auto complain = [&](std::int64_t position, const std::string& allowed) {
    return Reject("slots[" + std::to_string(position) + "]", slots.data[position], allowed);
  };
  if (first < 0 || first >= num_slots_) {
    throw complain(begin, "in [0, num_slots), num_slots being " + std::to_string(num_slots_));
  }
  if (OffsetInPage(first) != OffsetInPage(begin)) {
    throw complain(begin, "at offset " + std::to_string(OffsetInPage(begin)) + " of a page of " +
                              std::to_string(page_size_));
  }
  for (std::int64_t i = begin + 1; i < end; ++i) {
    if (slots.data[i] != first + (i - begin)) {
      throw complain(
          i, std::to_string(first + (i - begin)) + ", in one page with slots[" + std::to_string(begin) + "]");
    }
  }
}

// Of the pages offered for the first `length` tokens, all matched, finds those that the tree does not hold.
void RadixTree::FindUnused(const Place& place, Int64Span slots, std::int64_t length,
                           OfferedPages& unused) const {
  bool same = true;
  VisitSlots(
      place.node, length,
      [&](std::int64_t begin, std::int64_t count, const std::int64_t* held) {
        same = same && CommonPrefix(slots.data + begin, held, count) == count;
      },
      [&](std::int64_t begin, std::int64_t count, std::int64_t first) {
        for (std::int64_t i = 0; i < count; ++i) same = same && slots.data[begin + i] == first + i;
      });
  if (same) return;

  std::vector<std::int64_t> held(static_cast<std::size_t>(length));
  CopySlotsUpTo(place.node, length, held.data());
  for (std::int64_t begin = 0; begin < length; begin += page_size_) {
    const std::int64_t end = std::min(begin + page_size_, length);
    CheckOffered(slots, begin, end);
    if (slots.data[begin] == held[static_cast<std::size_t>(begin)]) continue;
    const std::int64_t page = slots.data[begin] / page_size_;
    switch (pages_.Get(page)) {
      case PageState::kFree:
        unused.Add(page);
        break;
      case PageState::kOffered:
        throw OfferedTwice(page);
      case PageState::kHeld:
        if (!IsOnPath(page, place.node, begin, end)) throw HeldElsewhere(page);
    }
  }
}

// Finds the pages offered for the tokens that were not matched. True if the first of them goes on in the
// page in which the matched ones end; otherwise that page, too, becomes the tree's, with copies in front.
bool RadixTree::FindAdopted(const Place& place, Int64Span slots, OfferedPages& adopted) const {
  const Node& above = nodes_[place.node];
  const std::int64_t in_page = OffsetInPage(place.length);
  bool continues = false;
  for (std::int64_t begin = place.length - in_page; begin < slots.size; begin += page_size_) {
    CheckOffered(slots, begin, std::min(begin + page_size_, slots.size));
    const std::int64_t page = slots.data[begin] / page_size_;
    if (begin < place.length && page == above.slots()[place.offset - 1] / page_size_) {
      if (place.offset < above.length || above.last_page_shared) throw HeldElsewhere(page);
      continues = true;
      continue;
    }
    if (pages_.Get(page) == PageState::kHeld) throw HeldElsewhere(page);
    if (pages_.Get(page) == PageState::kOffered) throw OfferedTwice(page);
    adopted.Add(page);
  }
  return continues;
}

// Whether a node on the path lists the page for positions in [begin, end), a page-sized stretch.
bool RadixTree::IsOnPath(std::int64_t page, Index index, std::int64_t begin, std::int64_t end) const {
  for (; index != kRoot && nodes_[index].end() > begin; index = nodes_[index].parent) {
    const Node& node = nodes_[index];
    if (node.begin >= end) continue;
    if (node.slots()[std::max(begin, node.begin) - node.begin] / page_size_ == page) return true;
  }
  return false;
}

// ---- Changing

MatchedPrefix RadixTree::MatchPrefix(Int64Span tokens, const std::string& name_space) {
  CheckSpan("tokens", tokens);
  const Place place = Walk(tokens, name_space);
  Reserve(1);
  const Index node = SplitAt(place);
  Touch(node, 1, kNoPriority);
  return {place.length, HandleOf(node)};
}

Insertion RadixTree::Insert(Int64Span tokens, Int64Span slots, const std::string& name_space,
                            std::int64_t priority) {
  CheckSpan("tokens", tokens);
  if (tokens.size != slots.size) {
    throw InvalidArgument("slots has " + std::to_string(slots.size) +
                          " elements, but must have one for each of the " + std::to_string(tokens.size) +
                          " tokens");
  }
  const Place place = Walk(tokens, name_space);
  const std::int64_t rest = tokens.size - place.length;
  OfferedPages unused(pages_);
  OfferedPages adopted(pages_);
  // The page in which the rest begins is adopted as a whole.
  FindUnused(place, slots, rest > 0 ? place.length - OffsetInPage(place.length) : place.length, unused);
  const bool shares_page = rest > 0 && FindAdopted(place, slots, adopted);

  Insertion result;
  result.matched_length = place.length;
  result.unused_pages = unused.pages();
  Reserve(2);
  Index end = 0;
  if (rest > 0) {
    auto chunk =
        std::make_unique<TokenChunk>(Int64Span{tokens.data + place.length, rest}, slots.data + place.length);
    const std::uint64_t family = place.node == kRoot ? FamilyFor(name_space) : kNoFamily;
    end = AddLeaf(SplitAt(place), std::move(chunk), rest, family, shares_page);
    adopted.Keep();
  } else {
    end = SplitAt(place);
  }
  Touch(end, 0, priority);
  NoteIfEvictable(end);
  result.node = HandleOf(end);
  return result;
}

void RadixTree::Reserve(std::size_t count) {
  if (nodes_.size() + count > kMaxNodes) throw std::bad_alloc();
  ReserveMore(nodes_, count);
  if (unused_nodes_.capacity() < nodes_.capacity()) unused_nodes_.reserve(nodes_.capacity());
  table_.Reserve(count);
  heap_.Reserve(nodes_.size() + count);
}

RadixTree::Index RadixTree::TakeNode() noexcept {
  Index index = 0;
  if (unused_nodes_.empty()) {
    index = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    index = unused_nodes_.back();
    unused_nodes_.pop_back();
    const Index generation = nodes_[index].generation;
    nodes_[index] = Node();
    nodes_[index].generation = generation;
  }
  nodes_[index].alive = true;
  return index;
}

// The new node takes the upper part: handles of the divided one go on naming the sequence they named.
RadixTree::Index RadixTree::SplitAt(const Place& place) noexcept {
  if (place.node == kRoot || place.offset == nodes_[place.node].length) return place.node;
  const Index index = TakeNode();
  Node& lower = nodes_[place.node];
  Node& upper = nodes_[index];
  const Index generation = upper.generation;
  upper = lower;
  upper.generation = generation;
  upper.length = place.offset;
  upper.own_locks = 0;
  upper.num_children = 1;
  upper.last_page_shared = OffsetInPage(upper.end()) != 0;
  table_.Replace(lower.hash, place.node, index);

  lower.start += place.offset;
  lower.length -= place.offset;
  lower.begin += place.offset;
  lower.shares_first_page = upper.last_page_shared;
  lower.parent = index;
  lower.family = index;
  lower.hash = table_.Hash(lower.family, *lower.tokens());
  table_.Insert(lower.hash, place.node);
  return index;
}

RadixTree::Index RadixTree::AddLeaf(Index parent, std::unique_ptr<TokenChunk> chunk, std::int64_t length,
                                    std::uint64_t family, bool shares_page) noexcept {
  const Index index = TakeNode();
  Node& node = nodes_[index];
  node.chunk = chunk.release();
  node.length = length;
  node.begin = nodes_[parent].end();
  node.parent = parent;
  node.family = parent == kRoot ? family : parent;
  node.inserted = clock_;
  node.priority = kNoPriority;
  node.shares_first_page = shares_page;
  node.hash = table_.Hash(node.family, *node.tokens());
  table_.Insert(node.hash, index);
  if (shares_page) nodes_[parent].last_page_shared = true;
  ++nodes_[parent].num_children;
  total_tokens_ += length;
  total_pages_ += PagesOf(node);
  return index;
}

void RadixTree::Touch(Index index, std::int64_t hits, std::int64_t priority) noexcept {
  ++clock_;
  for (; index != kRoot; index = nodes_[index].parent) {
    Node& node = nodes_[index];
    node.last_access = clock_;
    node.hit_count += hits;
    node.priority = std::max(node.priority, priority);
  }
}

// ---- Locking

std::int64_t RadixTree::IncLockRef(NodeHandle node) {
  const Index index = IndexOf(node);
  ++nodes_[index].own_locks;
  return Lock(index, 1);
}

std::int64_t RadixTree::DecLockRef(NodeHandle node) {
  const Index index = IndexOf(node);
  if (nodes_[index].own_locks == 0) {
    throw IllegalState("node " + std::to_string(node) + " is not locked, so it cannot be unlocked");
  }
  --nodes_[index].own_locks;
  const std::int64_t change = Lock(index, -1);
  NoteIfEvictable(index);
  return change;
}

std::int64_t RadixTree::Lock(Index index, std::int64_t count) noexcept {
  std::int64_t evictable = 0;
  for (; index != kRoot; index = nodes_[index].parent) {
    Node& node = nodes_[index];
    const bool was_locked = node.lock_ref != 0;
    node.lock_ref += count;
    if (was_locked == (node.lock_ref != 0)) continue;
    const std::int64_t sign = was_locked ? 1 : -1;
    evictable += sign * node.length;
    protected_pages_ -= sign * PagesOf(node);
  }
  protected_tokens_ -= evictable;
  return evictable;
}

// ---- Eviction

// The heap may hold nodes that are no leaves or are locked by now, and keys from before a use: keys only
// grow, so whoever stands on top too early is seen, and put right, before anyone else goes too early.
void RadixTree::NoteIfEvictable(Index index) noexcept {
  if (index != kRoot && nodes_[index].is_evictable_leaf() && !heap_.Contains(index)) {
    heap_.Set(index, KeyOf(nodes_[index]));
  }
}

Eviction RadixTree::Evict(std::int64_t num_tokens) {
  if (num_tokens < 0) throw Reject("num_tokens", num_tokens, "0 or more");
  const std::int64_t wanted = num_tokens / page_size_ + (num_tokens % page_size_ == 0 ? 0 : 1);
  Eviction result;
  while (static_cast<std::int64_t>(result.pages.size()) < wanted && !heap_.empty()) {
    const Index top = heap_.top();
    const Node& node = nodes_[top];
    if (!node.is_evictable_leaf()) {
      heap_.Remove(top);
      continue;
    }
    if (const EvictionKey key = KeyOf(node); heap_.top_key() < key) {
      heap_.Set(top, key);
      continue;
    }
    try {
      ReserveMore(result.pages, static_cast<std::size_t>(PagesOf(node)));
    } catch (const std::bad_alloc&) {
      break;  // with what is free already
    }
    result.num_tokens += node.length;
    RemoveLeaf(top, result.pages);
  }
  return result;
}

void RadixTree::RemoveLeaf(Index index, std::vector<std::int64_t>& pages) noexcept {
  Node& node = nodes_[index];
  const Index parent = node.parent;
  const std::int64_t until = node.end();
  for (std::int64_t position = node.begin; position < until;) {
    const std::int64_t page = node.slots()[position - node.begin] / page_size_;
    if (position != node.begin || !node.shares_first_page) {
      pages.push_back(page);
      pages_.Set(page, PageState::kFree);
    }
    position += page_size_ - OffsetInPage(position);
  }
  total_tokens_ -= node.length;
  total_pages_ -= PagesOf(node);
  table_.Remove(node.hash, index);
  heap_.Remove(index);
  if (node.shares_first_page) nodes_[parent].last_page_shared = false;
  if (parent == kRoot) ForgetNameSpaceChild(node.family);
  if (node.chunk->Release(node.length)) delete node.chunk;
  node.alive = false;
  ++node.generation;
  unused_nodes_.push_back(index);
  --nodes_[parent].num_children;
  NoteIfEvictable(parent);
}

void RadixTree::Reset() {
  const bool locked = std::any_of(nodes_.begin(), nodes_.end(),
                                  [](const Node& node) { return node.alive && node.own_locks != 0; });
  if (locked) throw IllegalState("the tree has locked nodes, so it cannot be reset");
  unused_nodes_.reserve(nodes_.capacity());
  FreeChunks();
  unused_nodes_.clear();
  for (Index index = static_cast<Index>(nodes_.size() - 1); index != kRoot; --index) {
    nodes_[index].generation += nodes_[index].alive ? 1 : 0;
    nodes_[index].alive = false;
    unused_nodes_.push_back(index);
  }
  nodes_[kRoot].num_children = 0;
  table_.Clear();
  heap_.Clear();
  pages_.Clear();
  name_spaces_.clear();
  name_of_family_.clear();
  total_tokens_ = 0;
  total_pages_ = 0;
}

// The nodes of a chunk lie one below the other, and the topmost begins where it begins.
void RadixTree::FreeChunks() noexcept {
  for (const Node& node : nodes_) {
    if (node.alive && node.start == 0) delete node.chunk;
  }
}

// ---- Namespaces

// What the children of the root in a namespace are known by, one of which is about to be added.
std::uint64_t RadixTree::FamilyFor(const std::string& name_space) {
  if (name_space.empty()) return kDefaultFamily;
  auto found = name_spaces_.find(name_space);
  if (found == name_spaces_.end()) {
    name_of_family_[next_family_] = name_space;
    found = name_spaces_.emplace(name_space, NameSpace{next_family_, 0}).first;
    ++next_family_;
  }
  ++found->second.num_children;
  return found->second.family;
}

void RadixTree::ForgetNameSpaceChild(std::uint64_t family) noexcept {
  if (family == kDefaultFamily) return;
  const auto name = name_of_family_.find(family);
  const auto found = name_spaces_.find(name->second);
  if (--found->second.num_children > 0) return;
  name_spaces_.erase(found);
  name_of_family_.erase(name);
}

}  // namespace hygon_backend::cache
