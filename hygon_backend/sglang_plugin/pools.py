"""SGLang's KV pools seen as bshd pages, and its token slots as page numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

if TYPE_CHECKING:
    from sglang.srt.mem_cache.memory_pool import KVCache, ReqToTokenPool


class PagePools:
    """The pools of one model runner.

    SGLang keeps a slot number for every token of every request, `req_to_token[request, position]`. A
    page's slots follow each other and start at a multiple of the page size, so every `page_size`-th
    slot, divided, is a block table, and a pool's `[slots, Hkv, D]` buffer is a bshd cache as it lies.
    """

    def __init__(self, requests: ReqToTokenPool, pool: KVCache, page_size: int) -> None:
        self._slots: torch.Tensor = requests.req_to_token
        self._pool = pool
        self.page_size = page_size
        self._window_pool = pool if isinstance(pool, SWAKVPool) and pool.swa_layer_nums > 0 else None

    @property
    def has_window_pool(self) -> bool:
        """Whether sliding-window layers have a smaller pool of their own."""
        return self._window_pool is not None

    def in_window_pool(self, layer_id: int) -> bool:
        """Whether a layer's keys are in the pool of the sliding-window layers."""
        return self._window_pool is not None and bool(self._window_pool.layers_mapping[layer_id][1])

    @property
    def max_pages(self) -> int:
        """Pages of the longest possible sequence."""
        return -(-self._slots.shape[1] // self.page_size)

    def block_table(self, requests: torch.Tensor, longest: int | None) -> torch.Tensor:
        """Pages of some requests.

        Args:
            requests: `[num_seqs]` rows of `req_to_token`.
            longest: positions to cover; None for all there are.

        Returns:
            `[num_seqs, max_pages]` int32, a copy. Entries past a request's length are whatever slots
            an earlier request left there.
        """
        first_slots = self._slots[:, : longest : self.page_size][requests]
        return first_slots if self.page_size == 1 else first_slots // self.page_size

    def window_block_table(self, block_table: torch.Tensor) -> torch.Tensor | None:
        """The same pages as the window pool numbers them; None without a window pool."""
        if self._window_pool is None:
            return None
        slots: torch.Tensor = self._window_pool.translate_loc_from_full_to_swa(
            block_table.long() * self.page_size
        )
        return (slots // self.page_size).int()

    def window_slots(self, slots: torch.Tensor | None) -> torch.Tensor | None:
        """Token slots as the window pool numbers them; None without a window pool."""
        if self._window_pool is None or slots is None:
            return None
        translated: torch.Tensor = self._window_pool.translate_loc_from_full_to_swa(slots)
        return translated

    def caches(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A layer's keys and values `[num_pages, page_size, Hkv, D]`, views of the pool."""
        keys = self._pool.get_key_buffer(layer_id)
        values = self._pool.get_value_buffer(layer_id)
        return self._paged(keys), self._paged(values)

    def _paged(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer.view(-1, self.page_size, *buffer.shape[1:])
