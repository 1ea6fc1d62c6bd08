"""Cache writes, page copies and gathers of the PyTorch path."""

from __future__ import annotations

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import CacheGeometry, KVLayout, Part, token_major_view
from hygon_backend.torch_path.gather import gather_dense
from hygon_backend.torch_path.scales import quantise


def write_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    layout: KVLayout,
    block_size: int,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Scatters tokens to their slots; negative slots are skipped."""
    kept = slot_mapping >= 0
    if not bool(kept.all()):
        index = kept.nonzero().flatten()
        k, v, slot_mapping = (x.index_select(0, index) for x in (k, v, slot_mapping))
    block, offset = slot_mapping.long() // block_size, slot_mapping.long() % block_size
    parts: tuple[tuple[torch.Tensor, torch.Tensor, Part, Scale], ...] = (
        (k, k_cache, "key", k_scale),
        (v, v_cache, "value", v_scale),
    )
    for data, cache, part, scale in parts:
        view = token_major_view(cache, layout, part)
        stored = quantise(data, scale, cache.dtype).reshape(data.shape[0], *view.shape[2:])
        if cache.itemsize == 1:  # torch cannot scatter fp8 elements, but it can scatter their bytes
            view, stored = view.view(torch.uint8), stored.view(torch.uint8)
        view[block, offset] = stored


def copy_blocks(caches: list[torch.Tensor], block_mapping: torch.Tensor) -> None:
    """Copies whole pages; all sources are read before any destination is written."""
    source, target = block_mapping.long().unbind(1)
    for cache in caches:
        raw = cache.view(torch.uint8) if cache.itemsize == 1 else cache
        raw.index_copy_(0, target, raw.index_select(0, source))


def gather_kv(
    cache: PagedCache,
    sizes: CacheGeometry,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Packs all sequences' keys and values: `[sum(seq_lens), H, D]` each."""
    heads = sizes.num_kv_heads
    keys = [cache.k_cache.new_empty(0, heads, sizes.head_size, dtype=dtype)]
    values = [cache.v_cache.new_empty(0, heads, sizes.head_size_v, dtype=dtype)]
    lengths: list[int] = seq_lens.tolist()
    for row, length in enumerate(lengths):
        if length > 0:
            kv = gather_dense(cache, block_table[row : row + 1], [0], [length], dtype)
            keys.append(kv.k[0])
            values.append(kv.v[0])
    return torch.cat(keys), torch.cat(values)
