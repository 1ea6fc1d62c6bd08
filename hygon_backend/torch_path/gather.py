"""Collects the pages a batch of sequences needs into dense tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import KVLayout, Part, token_major_view
from hygon_backend.torch_path.scales import dequantise


@dataclass(frozen=True)
class DenseKV:
    """Keys and values of `S` sequences, padded to `T` tokens.

    `k` is `[S, T, Hkv, D]`, `v` `[S, T, Hkv, Dv]`, `position` `[S, T]` the tokens' positions in
    their sequence, `valid` `[S, T]` tells real tokens from padding (None: all are real). Padding is
    zero in both, so that no stale byte of the pool, NaN included, meets the arithmetic. `allowed`
    `[S, R, T]` tells which query rows see which tokens beside the rules (None: all).
    """

    k: torch.Tensor
    v: torch.Tensor
    position: torch.Tensor
    valid: torch.Tensor | None
    allowed: torch.Tensor | None = None


def gather_dense(
    cache: PagedCache,
    block_table: torch.Tensor,
    first: list[int],
    end: list[int],
    dtype: torch.dtype,
) -> DenseKV:
    """Gathers tokens `first[s] .. end[s] - 1` of every sequence `s`.

    Args:
        cache: the paged cache.
        block_table: `[S, max_blocks]` page ids; only the entries of the asked pages are used.
        first: first token needed of each sequence.
        end: one past the last token needed; `end[s] > first[s]`.
        dtype: element type of the result.
    """
    device = block_table.device
    block_size = cache.block_size
    first_page = [token // block_size for token in first]
    num_pages = [-(-stop // block_size) - page for stop, page in zip(end, first_page, strict=True)]
    width = max(num_pages)
    uniform = min(num_pages) == width

    if len(first) == 1:
        pages = block_table[:, first_page[0] : first_page[0] + width]
    else:
        column = torch.tensor(first_page, device=device)[:, None] + torch.arange(width, device=device)
        if not uniform:
            # A short row's surplus columns may lie past the table or hold stale ids: point them at
            # the row's own first page, which is readable, and discard what comes back.
            used = torch.tensor(num_pages, device=device)[:, None]
            column = torch.where(torch.arange(width, device=device) < used, column, column[:, :1])
        pages = block_table.gather(1, column)

    start = torch.tensor([page * block_size for page in first_page], device=device)
    position = start[:, None] + torch.arange(width * block_size, device=device)
    low = torch.tensor(first, device=device)[:, None]
    high = torch.tensor(end, device=device)[:, None]
    valid = (position >= low) & (position < high)

    k = _gather_part(cache.k_cache, cache.layout, "key", pages, cache.k_scale, dtype)
    v = _gather_part(cache.v_cache, cache.layout, "value", pages, cache.v_scale, dtype)
    if len(first) == 1:
        # One sequence needs no padding: cut instead.
        inner = slice(first[0] - first_page[0] * block_size, end[0] - first_page[0] * block_size)
        return DenseKV(k[:, inner], v[:, inner], position[:, inner], None)
    padding = (~valid).nonzero(as_tuple=True)
    if padding[0].numel() == 0:
        return DenseKV(k, v, position, None)
    for dense in (k, v):
        dense.index_put_(padding, dense.new_zeros(()))
    return DenseKV(k, v, position, valid)


def _gather_part(
    cache: torch.Tensor, layout: KVLayout, part: Part, pages: torch.Tensor, scale: Scale, dtype: torch.dtype
) -> torch.Tensor:
    """Copies `pages` `[S, P]` out of one cache: `[S, P * block_size, H, D]`."""
    picked = cache.index_select(0, pages.flatten())
    tokens = token_major_view(picked, layout, part).flatten(3)
    tokens = tokens.reshape(pages.shape[0], -1, *tokens.shape[2:])
    return dequantise(tokens, scale, dtype)
