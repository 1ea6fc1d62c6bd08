"""Spreads dense keys and values over a paged pool whose every other byte is poison."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hygon_backend.kv_layout import KVLayout
from support.bits import bits
from support.problem import Problem

STALE_IDS = (-1, 1_000_000, -(2**31), 2**31 - 1)
"""What unused block-table entries hold, in turn: none of them may ever be followed."""


TOKEN_AXIS = {
    (KVLayout.BSHD, "key"): 1,
    (KVLayout.BSHD, "value"): 1,
    (KVLayout.BHSD, "key"): 2,
    (KVLayout.BHSD, "value"): 2,
    (KVLayout.BHSD_VT, "key"): 2,
    (KVLayout.BHSD_VT, "value"): 3,
    (KVLayout.X_PACKED, "key"): 3,
    (KVLayout.X_PACKED, "value"): 3,
}
"""Where the token axis of a page lies."""


@dataclass(frozen=True)
class PoolStyle:
    """How a pool lies in memory.

    Attributes:
        interleaved: keys and values of a page lie side by side in one allocation.
        page_gap: foreign elements after every page, as in a pool that packs several layers.
        row_gap: foreign elements after every row of the innermost axis.
        poison: what all bytes hold that belong to no token: "nan", or "large" finite values.
    """

    interleaved: bool = False
    page_gap: int = 0
    row_gap: int = 0
    poison: str = "nan"


@dataclass(frozen=True)
class Paged:
    """A problem's keys and values in pages, with the arrays that find them."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    layout: KVLayout
    block_size: int


def page(
    problem: Problem,
    layout: KVLayout = KVLayout.BSHD,
    block_size: int = 16,
    *,
    style: PoolStyle | None = None,
    spare_columns: int = 2,
    index_dtype: torch.dtype = torch.int32,
    seed: int = 0,
) -> Paged:
    """Pages a problem.

    Pages are scattered over the pool in random order. Unused pages, the tail of each last page and
    all gaps hold poison; block-table entries past a sequence's pages hold ids that must not be used,
    and the table is a slice of a wider tensor that holds such ids too.
    """
    style = style or PoolStyle()
    generator = torch.Generator().manual_seed(seed)
    counts = [-(-length // block_size) for length in problem.kv_lens]
    num_blocks = sum(counts) + 3
    k_cache, v_cache = make_pool(num_blocks, block_size, problem.k[0], problem.v[0], layout, style)
    order = torch.randperm(num_blocks, generator=generator)[: sum(counts)].split(counts)

    width = max(counts, default=0) + spare_columns
    wide = torch.tensor(STALE_IDS, dtype=index_dtype).repeat(len(counts), width // len(STALE_IDS) + 2)
    for row, ids in enumerate(order):
        wide[row, : len(ids)] = ids
        fill_pages(k_cache, ids, problem.k[row], layout, "key", block_size)
        fill_pages(v_cache, ids, problem.v[row], layout, "value", block_size)
    return Paged(
        k_cache=k_cache,
        v_cache=v_cache,
        block_table=wide[:, :width],
        seq_lens=torch.tensor(problem.kv_lens, dtype=index_dtype),
        layout=layout,
        block_size=block_size,
    )


def make_pool(
    num_blocks: int,
    block_size: int,
    k_like: torch.Tensor,
    v_like: torch.Tensor,
    layout: KVLayout,
    style: PoolStyle,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocates (key cache, value cache) full of poison for tokens shaped like `[*, Hkv, D]`."""
    shapes = [
        in_layout(like.new_empty(1, block_size, *like.shape[1:]), layout, part).shape[1:]
        for like, part in ((k_like, "key"), (v_like, "value"))
    ]
    padded = [(*shape[:-1], shape[-1] + style.row_gap) for shape in shapes]
    sizes = [math.prod(shape) + style.page_gap for shape in padded]
    if style.interleaved:
        flat = poisoned((num_blocks, sum(sizes)), k_like.dtype, style.poison)
        regions = flat.split(sizes, dim=1)
    else:
        regions = [poisoned((num_blocks, size), k_like.dtype, style.poison) for size in sizes]
    caches = [
        region[:, : size - style.page_gap].unflatten(1, full)[..., : shape[-1]]
        for region, size, full, shape in zip(regions, sizes, padded, shapes, strict=True)
    ]
    return caches[0], caches[1]


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, poison: str = "nan") -> torch.Tensor:
    """Allocates a tensor of NaN (all bits set, NaN in every dtype) or of large finite values."""
    tensor = torch.empty(shape, dtype=dtype)
    if poison == "nan":
        tensor.view(torch.uint8).fill_(255)
    else:
        tensor.copy_(torch.full(shape, min(torch.finfo(dtype).max, 3e4)))
    return tensor


def fill_pages(
    cache: torch.Tensor,
    ids: torch.Tensor,
    tokens: torch.Tensor,
    layout: KVLayout,
    part: str,
    block_size: int,
) -> None:
    """Writes one sequence's tokens to its pages `ids` and leaves the rest of the last page alone."""
    for start, block in zip(range(0, len(tokens), block_size), ids.tolist(), strict=True):
        piece = in_layout(bits(tokens[None, start : start + block_size]), layout, part)
        axis = TOKEN_AXIS[layout, part]
        bits(cache)[block : block + 1].narrow(axis, 0, piece.shape[axis]).copy_(piece)


def in_layout(pages: torch.Tensor, layout: KVLayout, part: str) -> torch.Tensor:
    """Permutes `[P, tokens, H, D]` to the axis order of a layout, as the source document gives it."""
    axis = TOKEN_AXIS[layout, part]
    if layout is KVLayout.X_PACKED and part == "key":
        return pages.unflatten(3, (-1, 16 // pages.itemsize)).permute(0, 2, 3, 1, 4)
    return pages.movedim(1, axis)


def ragged_indices(paged: Paged) -> torch.Tensor:
    """The slots of all sequences in one list, for pages of one key; unusable ones follow."""
    assert paged.block_size == 1
    rows = [row[:length] for row, length in zip(paged.block_table, paged.seq_lens.tolist(), strict=True)]
    stale = torch.tensor(STALE_IDS, dtype=paged.block_table.dtype)
    return torch.cat([*rows, stale])
