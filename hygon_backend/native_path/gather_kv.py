"""Calls the native gather."""

from __future__ import annotations

from types import ModuleType

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.kv_layout import CacheGeometry
from hygon_backend.native_path.common import ELEMENT_TYPES, call_stream, set_index
from hygon_backend.native_path.kv_part import set_part


def supports(cache: PagedCache, dtype: torch.dtype) -> bool:
    """Whether a kernel exists that turns the cache's elements into `dtype`: any float type of 16 bits
    or more, or the cache's own."""
    stored = cache.k_cache.dtype
    return stored in ELEMENT_TYPES and (dtype == stored or (dtype in ELEMENT_TYPES and dtype.itemsize > 1))


def run(
    module: ModuleType,
    cache: PagedCache,
    sizes: CacheGeometry,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gathers all sequences' keys and values.

    Waits for the device once, to read the sum of the lengths, which is the size of the result.

    Args:
        module: the extension module.
        cache: the paged cache.
        sizes: its sizes.
        block_table: `[S, max_blocks]`.
        seq_lens: `[S]`.
        cu_seqlens_k: `[S + 1]` int32, their prefix sums, dense.
        dtype: element type of the result.

    Returns:
        keys `[sum(seq_lens), Hkv, D]` and values `[sum(seq_lens), Hkv, Dv]`.
    """
    device = seq_lens.device
    total = int(cu_seqlens_k[-1])
    keys = torch.empty(total, sizes.num_kv_heads, sizes.head_size, dtype=dtype, device=device)
    values = torch.empty(total, sizes.num_kv_heads, sizes.head_size_v, dtype=dtype, device=device)

    params = module.GatherKvParams()
    keep: list[torch.Tensor] = []
    set_part(params.k, "key", keys, cache.k_cache, cache.layout, cache.k_scale, keep)
    set_part(params.v, "value", values, cache.v_cache, cache.layout, cache.v_scale, keep)
    set_index(params, "block_table", block_table)
    params.cu_seqlens = cu_seqlens_k.data_ptr()
    params.token_type = ELEMENT_TYPES[dtype]
    params.cache_type = ELEMENT_TYPES[cache.k_cache.dtype]
    params.num_tokens = total
    params.num_seqs = len(seq_lens)
    params.num_heads = sizes.num_kv_heads
    params.block_size = cache.block_size
    with call_stream(device) as stream:
        module.gather_kv(params, stream)
    return keys, values
