"""Pools far larger than the machine's memory: address space is reserved, only touched pages cost."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass

import torch

from hygon_backend.kv_layout import KVLayout
from support.paging import Paged, fill_pages, in_layout
from support.problem import Problem

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # in the module since Python 3.13


def virtual_zeros(num_elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of zeros whose memory is taken from the system page by page, when first written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, num_elements * dtype.itemsize, flags=flags), dtype=dtype)


@dataclass(frozen=True)
class HugePool:
    """Shape of a pool in which 32-bit offsets overflow, and the pages to use in it.

    Attributes:
        num_blocks: pages of the pool.
        stride: elements from one page to the next; keys and values of a page lie in it side by side.
        block_size: tokens of a page.
        num_kv_heads: heads; their size is 128 and the dtype float16.
        block_ids: pages on both sides of the overflow, in the order in which a sequence uses them.
    """

    num_blocks: int
    stride: int
    block_size: int
    num_kv_heads: int
    block_ids: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of a sequence that fills all of `block_ids` but one slot."""
        return len(self.block_ids) * self.block_size - (self.block_size > 1)

    def caches(self, layout: KVLayout) -> tuple[torch.Tensor, torch.Tensor]:
        """(key cache, value cache) over one virtual allocation of zeros."""
        flat = virtual_zeros(self.num_blocks * self.stride, torch.float16)
        page = torch.empty(1, self.block_size, self.num_kv_heads, 128, dtype=torch.float16)
        shapes = [in_layout(page, layout, part).shape[1:] for part in ("key", "value")]
        pages = flat.unflatten(0, (self.num_blocks, self.stride))
        starts = (0, page.numel())
        cut = [pages[:, start : start + math.prod(s)] for start, s in zip(starts, shapes, strict=True)]
        keys, values = (region.unflatten(1, shape) for region, shape in zip(cut, shapes, strict=True))
        return keys, values

    def page(self, problem: Problem, layout: KVLayout) -> Paged:
        """Pages a problem of one sequence."""
        k_cache, v_cache = self.caches(layout)
        ids = torch.tensor(self.block_ids)
        fill_pages(k_cache, ids, problem.k[0], layout, "key", self.block_size)
        fill_pages(v_cache, ids, problem.v[0], layout, "value", self.block_size)
        return Paged(
            k_cache=k_cache,
            v_cache=v_cache,
            block_table=ids.int()[None],
            seq_lens=torch.tensor(problem.kv_lens, dtype=torch.int32),
            layout=layout,
            block_size=self.block_size,
        )
