"""RadixCache: the longest known prefix of a token sequence, and the slots that hold its keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch

from hygon_backend.cache.tokens import lendable
from hygon_backend.errors import reject

if TYPE_CHECKING:
    from hygon_backend._C import NodeInfo
    from hygon_backend.cache.tokens import Int64s

Policy = Literal["lru", "lfu", "fifo", "priority"]


class MatchResult(NamedTuple):
    """A prefix that was found."""

    length: int
    """Number of its tokens."""
    slots: torch.Tensor
    """int64 `[length]`, on the CPU: where they lie. If `length` is no multiple of the page size, the last
    page is shared with sequences that go on differently: copy it before writing behind the prefix."""
    node: int
    """Names the prefix to `inc_lock_ref` and the others, until it is evicted."""


class InsertResult(NamedTuple):
    """What became of tokens and slots that were offered."""

    matched_length: int
    """Number of leading tokens that were known before."""
    node: int
    """Names the whole inserted sequence."""
    unused_pages: list[int]
    """Offered pages that the cache does not hold, since their tokens lie in others: the caller's to free."""


class EvictResult(NamedTuple):
    """What an eviction achieved."""

    num_tokens: int
    """Number of tokens that were forgotten."""
    pages: list[int]
    """Pages that the cache holds no longer: the caller's to free."""


class RadixCache:
    """A compressed radix tree over token ids, with locks and eviction (RadixAttention; document part 2).

    The token at position p of a sequence lies at `slot = page * page_size + p % page_size`. Prefixes are
    found to the token whatever the page size. Two sequences that part within a page hold two pages for that
    stretch: whoever extends a prefix that ends within a page copies this page first and writes to the copy,
    and may later insert the copy.

    Bad arguments raise InvalidArgumentError, unknown nodes UnknownIdError; whatever raises changes nothing.

    Args:
        num_slots: size of the pool in tokens, a multiple of `page_size`.
        page_size: tokens of a page.
        policy: which unlocked leaf is evicted first: the least recently used (`lru`), the least often
            matched (`lfu`), the one inserted first (`fifo`) or the one of the lowest priority (`priority`).
    """

    def __init__(self, num_slots: int, page_size: int = 1, policy: Policy = "lru") -> None:
        from hygon_backend import _C

        if policy not in get_args(Policy):
            raise reject("policy", repr(policy), f"one of {', '.join(get_args(Policy))}")
        self.policy = policy
        self._tree = _C.RadixTree(num_slots, page_size, getattr(_C.EvictionPolicy, policy))

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self._tree.page_size

    @property
    def num_slots(self) -> int:
        """Size of the pool in tokens."""
        return self._tree.num_slots

    @property
    def num_nodes(self) -> int:
        """Number of nodes, the root not counted."""
        return self._tree.num_nodes

    def match_prefix(self, tokens: Int64s, namespace: str = "") -> MatchResult:
        """Finds the longest known prefix, which counts as a use of it.

        Where it ends within a node, the node is split. Namespaces keep sequences apart whose keys and values
        differ although their tokens do not (another adapter, another tenant).
        """
        length, node = self.find_prefix(tokens, namespace)
        return MatchResult(length, self.path_slots(node), node)

    def find_prefix(self, tokens: Int64s, namespace: str = "") -> tuple[int, int]:
        """Does what `match_prefix` does, but leaves the slots out.

        Returns (length, node); `path_slots(node)` reads the slots when they are wanted.
        """
        return self._tree.match_prefix(lendable(tokens), namespace)

    def match_length(self, tokens: Int64s, namespace: str = "") -> int:
        """Length of the longest known prefix; changes nothing, not even who was used last."""
        return self._tree.match_length(lendable(tokens), namespace)

    def path_slots(self, node: int) -> torch.Tensor:
        """Slots of all tokens from the root to the end of a node, int64 `[depth]` on the CPU."""
        slots = torch.empty(self._tree.depth(node), dtype=torch.int64)
        if slots.numel():
            self._tree.copy_slots(node, slots.data_ptr())
        return slots

    def insert(self, tokens: Int64s, slots: Int64s, namespace: str = "", priority: int = 0) -> InsertResult:
        """Makes a sequence known.

        Tokens that are known already stay where they are. For the others the cache takes over the pages that
        are offered, whole: a page in whose middle the unknown tokens begin must hold, before them, copies
        of the known ones.

        Args:
            tokens: the sequence from its start.
            slots: one for each token. Those that `match_prefix` returned are welcome.
            namespace: as for `match_prefix`.
            priority: for the policy `priority`; a prefix has the highest of those inserted over it.
        """
        return InsertResult(*self._tree.insert(lendable(tokens), lendable(slots), namespace, priority))

    def inc_lock_ref(self, node: int) -> int:
        """Locks a node and all above it, so that none is evicted.

        Returns the change of `evictable_size`, which is 0 or less.
        """
        return self._tree.inc_lock_ref(node)

    def dec_lock_ref(self, node: int) -> int:
        """Gives one lock of a node back; returns the change of `evictable_size`, 0 or more.

        Raises:
            IllegalStateError: `inc_lock_ref` of this node has not been called as often.
        """
        return self._tree.dec_lock_ref(node)

    def evict(self, num_tokens: int) -> EvictResult:
        """Forgets unlocked leaves until whole pages for `num_tokens` are free, or none is left.

        Only leaves go; a node becomes one when all below it are gone.
        """
        return EvictResult(*self._tree.evict(num_tokens))

    def reset(self) -> None:
        """Forgets everything; raises IllegalStateError while any node is locked."""
        self._tree.reset()

    def total_size(self) -> int:
        """Number of tokens the cache knows."""
        return self._tree.total_size()

    def evictable_size(self) -> int:
        """Those of them that no lock protects."""
        return self._tree.evictable_size()

    def protected_size(self) -> int:
        """Those of them that a lock protects."""
        return self._tree.protected_size()

    def num_pages(self) -> int:
        """Number of pages the cache holds."""
        return self._tree.num_pages()

    def evictable_pages(self) -> int:
        """Those of them that `evict` could free."""
        return self._tree.evictable_pages()

    def protected_pages(self) -> int:
        """Those of them in which a lock protects a token."""
        return self._tree.protected_pages()

    def nodes(self) -> list[NodeInfo]:
        """A copy of all nodes but the root, for tests and diagnostics."""
        return self._tree.nodes()

    def node_info(self, node: int) -> NodeInfo:
        """A copy of one node."""
        return self._tree.info(node)
