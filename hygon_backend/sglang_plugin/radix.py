"""`--radix-cache-backend hygon`: SGLang's prefix cache over our radix tree, which matches to the token.

SGLang's own trees cut a match down to whole pages, so a page size of 64 costs up to 63 tokens of every
request. Here whole pages are shared and the page in which a match ends is copied for the request that goes
on differently (copy on write).

Ownership, in SGLang's terms: the tree owns the row's positions [0, `cache_protected_len`), which is a
multiple of the page size; the request owns the pages behind.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    BasePrefixCache,
    DecLockRefParams,
    DecLockRefResult,
    EvictParams,
    EvictResult,
    IncLockRefResult,
    MatchPrefixParams,
    MatchResult,
)
from sglang.srt.mem_cache.common import evict_from_tree_cache
from sglang.srt.mem_cache.registry import default_radix_cache_factory

from hygon_backend.cache import OutOfBlocksError, RadixCache
from hygon_backend.errors import UnsupportedError
from hygon_backend.sglang_plugin import radix_rules
from hygon_backend.sglang_plugin.page_copies import PageCopies

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ReqKvInfo
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import RadixKey
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext

ROOT = 0
"""The native tree's handle of its root."""


def create_radix_cache(context: TreeCacheBuildContext) -> BasePrefixCache:
    """Makes the cache of a scheduler; SGLang calls this where the flag names us.

    With `--disable-radix-cache` nothing is cached, and SGLang's own empty cache serves.

    Raises:
        UnsupportedError: the engine is configured in a way that the cache does not cover.
    """
    if context.disable_radix_cache:
        return default_radix_cache_factory(context)
    sentence = radix_rules.explain(context)
    if sentence is not None:
        raise UnsupportedError(sentence)
    params = context.params
    pool = params.token_to_kv_pool_allocator.get_kvcache()
    stream = getattr(context.tp_worker.model_runner, "forward_stream", None)
    return HygonRadixCache(params, PageCopies(pool, params.page_size, stream))


class HygonRadixCache(BasePrefixCache):
    """SGLang's interface over `hygon_backend.cache.RadixCache`.

    The tree keeps slots on the host, so a checkpoint reads a request's row from the device. The scheduler's
    stream wrote that row, and it does not wait for forward passes.

    Args:
        params: pools, page size and eviction policy.
        copies: performs the copies on write.
    """

    def __init__(self, params: CacheInitParams, copies: PageCopies) -> None:
        self.disable = False
        self.req_to_token_pool = params.req_to_token_pool
        self.token_to_kv_pool_allocator = params.token_to_kv_pool_allocator
        self.page_size: int = params.page_size
        self._policy: Any = params.eviction_policy.lower()
        self._copies = copies
        self.num_copied_pages = 0
        if params.enable_metrics:
            self.init_metrics_collector()
        self.reset()

    def reset(self) -> None:
        """Forgets everything. SGLang clears its pools along with it, so nothing is given back."""
        # Page 0 takes the writes of padding, so the pool has one page more than can be allocated.
        pages = self.token_to_kv_pool_allocator.size // self.page_size + 1
        self._tree = RadixCache(pages * self.page_size, self.page_size, self._policy)

    def match_prefix(self, params: MatchPrefixParams) -> MatchResult:
        """Finds the longest known prefix, to the token."""
        length, node = self._find(params.key)
        return MatchResult(
            device_prefix_len=length,
            last_device_node=node,
            last_host_node=node,
            best_match_node=node,
            cache_protected_len=self._whole_pages(length),
        )

    def touch_prefix(self, key: RadixKey) -> None:
        """Makes a prefix the most recently used one."""
        self._find(key)

    def root_node_handle(self, extra_key: str | None = None) -> int:
        """The node of an empty prefix, which all namespaces share."""
        del extra_key
        return ROOT

    def path_device_indices(self, node: int) -> torch.Tensor:
        """Slots of a prefix, int64 `[depth]` on the pool's device."""
        return self._tree.path_slots(node).to(self._device)

    def prefix_device_indices(self, req: Req) -> torch.Tensor:
        """Slots for the prefix of a request that is being admitted, whose match is locked.

        If the prefix ends within a page, the request gets a copy of that page to go on in.

        Raises:
            OutOfBlocksError: no page is free for the copy. SGLang reserves one page more than the tokens
                of a request need, so its accounting is wrong then.
        """
        slots = self._tree.path_slots(req.last_node)[: req.prefix_len]
        within_page = req.prefix_len % self.page_size
        if within_page:
            source = int(slots[-1]) // self.page_size
            copy = self._allocate_page(req.rid)
            self._copies.copy(source, copy)
            self.num_copied_pages += 1
            slots[-within_page:] += (copy - source) * self.page_size
        return slots.to(self._device)

    def checkpoint(self, req: Req, *, up_to: int) -> None:
        """Makes the first `up_to` tokens of a request known, and shares the pages that hold them.

        Where another request's pages hold the same tokens, the row is pointed at those and the request's
        are given back. The last page stays the request's own, unless the tree took it over or it is full.
        """
        tokens = memoryview(req.full_untruncated_fill_ids)[:up_to]
        slots = self._row(req, 0, up_to)
        namespace = _namespace(req.extra_key, req.cache_salt)
        inserted = self._tree.insert(tokens, slots, namespace, req.priority or 0)

        protected = req.kv.cache_protected_len
        whole = self._whole_pages(up_to)
        if whole > protected:
            shared = self._tree.path_slots(inserted.node)[protected:whole]
            row = (req.kv.req_pool_idx, slice(protected, whole))
            self.req_to_token_pool.write(row, shared.to(self._device))
        unused = set(inserted.unused_pages)
        last_page = int(slots[-1]) // self.page_size if up_to > whole else None
        if up_to > whole and last_page not in unused:
            req.kv.cache_protected_len = whole + self.page_size
        else:
            req.kv.cache_protected_len = max(protected, whole)
        self._free_pages([page for page in inserted.unused_pages if page != last_page])

        self.unlock(req.lock)
        req.lock = self.lock(inserted.node)
        req.last_node = inserted.node
        req.kv.cache_inserted_len = max(req.kv.cache_inserted_len, up_to)

    def free_kv_row(self, kv: ReqKvInfo, ranges: list[tuple[int, int]]) -> None:
        """Gives ranges of a row back; those that end before they begin lie in a page the tree took over."""
        owned = [(start, end) for start, end in ranges if start < end]
        if owned:
            super().free_kv_row(kv, owned)

    def evict(self, params: EvictParams) -> EvictResult:
        """Frees pages for a number of tokens, as far as locks permit."""
        begin = time.perf_counter()
        evicted = self._tree.evict(params.num_tokens)
        self._free_pages(evicted.pages)
        num_tokens = len(evicted.pages) * self.page_size
        self.update_eviction_metrics(num_tokens, begin)
        return EvictResult(num_tokens_evicted=num_tokens)

    def inc_lock_ref(self, node: int) -> IncLockRefResult:
        """Locks a prefix."""
        return IncLockRefResult(delta=self._tree.inc_lock_ref(node), node_id=node)

    def dec_lock_ref(self, node: int, params: DecLockRefParams | None = None) -> DecLockRefResult:
        """Gives a lock back."""
        del params
        return DecLockRefResult(delta=self._tree.dec_lock_ref(node))

    def dfs_weight_order(self, node_handles: Sequence[int]) -> list[int]:
        """Requests in the order in which a walk meets their nodes that prefers well-visited subtrees."""
        parents: dict[int, int] = {}
        weights: dict[int, int] = defaultdict(int)
        for handle in node_handles:
            node = handle
            weights[node] += 1
            while node != ROOT:
                if node not in parents:
                    parents[node] = self._tree.node_info(node).parent
                node = parents[node]
                weights[node] += 1
        children = defaultdict(list)
        for node, parent in parents.items():
            children[parent].append(node)
        requests = defaultdict(list)
        for index, handle in enumerate(node_handles):
            requests[handle].append(index)
        order: list[int] = []
        stack = [ROOT]
        while stack:
            node = stack.pop()
            order.extend(requests[node])
            stack.extend(sorted(children[node], key=lambda child: weights[child]))
        return order

    def evictable_size(self) -> int:
        """Tokens' worth of pages that `evict` could free."""
        return self._tree.evictable_pages() * self.page_size

    def protected_size(self) -> int:
        """Tokens' worth of pages that locks keep in place."""
        return self._tree.protected_pages() * self.page_size

    full_evictable_size = evictable_size
    full_protected_size = protected_size

    def total_size(self) -> int:
        """Tokens' worth of pages that the cache holds."""
        return self._tree.num_pages() * self.page_size

    def pretty_print(self) -> None:
        """Prints the sizes; SGLang calls this before it gives up for want of memory."""
        print(
            f"hygon radix cache: {self._tree.total_size()} tokens in {self._tree.num_nodes} nodes, "
            f"{self._tree.evictable_pages()} pages evictable, {self._tree.protected_pages()} locked"
        )

    @property
    def _device(self) -> torch.device:
        return torch.device(self.token_to_kv_pool_allocator.device)

    def _whole_pages(self, length: int) -> int:
        return length - length % self.page_size

    def _find(self, key: RadixKey) -> tuple[int, int]:
        tokens = memoryview(key.token_ids)
        if key.limit is not None:
            tokens = tokens[: key.limit]
        return self._tree.find_prefix(tokens, _namespace(key.extra_key, key.cache_salt))

    def _row(self, req: Req, begin: int, end: int) -> torch.Tensor:
        row: torch.Tensor = self.req_to_token_pool.req_to_token[req.kv.req_pool_idx, begin:end]
        return row.to("cpu", torch.int64)

    def _allocate_page(self, request: str) -> int:
        evict_from_tree_cache(self, self.page_size)
        slots = self.token_to_kv_pool_allocator.alloc(self.page_size)
        if slots is None:
            raise OutOfBlocksError(
                f"no page is free for request {request}, whose prefix ends within a page; "
                f"{self.available_and_evictable_str().rstrip()}"
            )
        return int(slots[0]) // self.page_size

    def _free_pages(self, pages: Sequence[int]) -> None:
        if not pages:
            return
        numbers = torch.tensor(pages, dtype=torch.int64)
        allocator = self.token_to_kv_pool_allocator
        if self.page_size == 1:
            allocator.free(numbers.to(self._device))
        else:
            allocator.free_page_ids(numbers.to(self._device))


def _namespace(extra_key: str | None, cache_salt: str | None) -> str:
    """One string for the two that keep SGLang's prefixes apart; the empty one for neither."""
    if extra_key is None and not cache_salt:
        return ""
    return f"{extra_key!r}|{cache_salt or None!r}"
