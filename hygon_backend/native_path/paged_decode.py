"""Calls the native paged decode: describes tensors to it and owns its workspace."""

from __future__ import annotations

import logging
from types import ModuleType

import torch

from hygon_backend.kv_layout import token_major_view
from hygon_backend.native_path.common import (
    ELEMENT_TYPES,
    Struct,
    cache_strides,
    call_stream,
    set_index,
    set_scale,
)
from hygon_backend.torch_path.gather import PagedCache
from hygon_backend.torch_path.scales import FP8_DTYPES
from hygon_backend.torch_path.scores import ScoreRules

_log = logging.getLogger(__name__)

_QUERY_DTYPES = (torch.float16, torch.bfloat16)

_LARGEST_PARTITION = 1 << 30
_LARGEST_WINDOW = 1 << 30


def supports(q: torch.Tensor, cache: PagedCache) -> bool:
    """Whether a kernel exists for these element types: half or bfloat16 queries, a cache of the same
    type or fp8."""
    cache_dtype = cache.k_cache.dtype
    return q.dtype in _QUERY_DTYPES and (cache_dtype == q.dtype or cache_dtype in FP8_DTYPES)


def run(
    module: ModuleType,
    q: torch.Tensor,
    cache: PagedCache,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    rules: ScoreRules,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    partition_size: int | None,
) -> None:
    """Enqueues the attention of the last `R` tokens of each sequence, written to `out` (and `lse`).

    Neither waits for the device nor depends on the values of `seq_lens`, so a graph that captured the
    call may be replayed with other lengths of up to `max_blocks` pages.

    Args:
        module: the extension module.
        q: `[S, R, Hq, D]`, half or bfloat16.
        cache: the paged cache; q's dtype or fp8.
        block_table: `[S, max_blocks]`.
        seq_lens: `[S]`.
        rules: causal.
        out: `[S, R, Hq, Dv]`, q's dtype, written whole.
        lse: `[S, R, Hq]` float32 or None.
        partition_size: keys per partition, rounded up to a key tile; None lets the split follow the
            size of the device.
    """
    params = module.PagedDecodeParams()
    # The kernel reads it through pointers, so what is made here must outlive the launch's enqueueing;
    # the allocator then keeps it for the stream.
    keep: list[torch.Tensor] = []
    if q.stride(3) != 1:  # the kernel reads runs of a head's elements
        q = q.contiguous()
        keep.append(q)
    params.q = q.data_ptr()
    params.q_seq_stride, params.q_token_stride, params.q_head_stride, _ = q.stride()
    params.query_type = ELEMENT_TYPES[q.dtype]
    params.num_seqs, params.q_len, params.num_heads, params.head_size = q.shape
    _describe_cache(params, cache)

    params.max_blocks = block_table.shape[1]
    set_index(params, "block_table", block_table)
    set_index(params, "seq_lens", seq_lens)

    params.out = out.data_ptr()
    params.out_seq_stride, params.out_token_stride, params.out_head_stride, params.out_dim_stride = (
        out.stride()
    )
    params.head_size_v = out.shape[3]
    if lse is not None:
        params.lse = lse.data_ptr()
        params.lse_seq_stride, params.lse_token_stride, params.lse_head_stride = lse.stride()

    for name, per_head in (("sinks", rules.sinks), ("alibi_slopes", rules.alibi_slopes)):
        if per_head is not None:
            dense = per_head.to(torch.float32).contiguous()
            keep.append(dense)
            setattr(params, name, dense.data_ptr())
    set_scale(params, "k_scale", cache.k_scale, keep)
    set_scale(params, "v_scale", cache.v_scale, keep)

    params.scale = rules.scale
    params.window = min(rules.window or 0, _LARGEST_WINDOW)
    params.softcap = rules.softcap or 0.0

    with call_stream(q.device) as stream:
        # A size past any length means one partition; the kernel counts tokens in 32 bits.
        module.choose_partitions(params, min(partition_size or 0, _LARGEST_PARTITION))
        _log.debug(
            "paged_decode: %d partitions of at least %d keys for %d sequences of up to %d pages",
            params.num_partitions,
            params.partition_size,
            params.num_seqs,
            params.max_blocks,
        )
        workspace_bytes = module.paged_decode_workspace_bytes(params)
        if workspace_bytes:
            workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=q.device)
            params.workspace = workspace.data_ptr()
        module.paged_decode(params, stream)


def _describe_cache(params: Struct, cache: PagedCache) -> None:
    """Fills in pointers, element type and strides of the key and value caches."""
    params.k_cache, params.v_cache = cache.k_cache.data_ptr(), cache.v_cache.data_ptr()
    params.cache_type = ELEMENT_TYPES[cache.k_cache.dtype]
    params.block_size = cache.block_size
    params.num_kv_heads = token_major_view(cache.k_cache, cache.layout, "key").shape[2]
    keys = cache_strides(cache.k_cache, cache.layout, "key")
    params.k_block_stride, params.k_token_stride, params.k_head_stride = keys.block, keys.token, keys.head
    params.k_dim_stride = keys.dim
    if keys.pack:
        params.k_pack, params.k_pack_stride = keys.pack, keys.pack_stride
    values = cache_strides(cache.v_cache, cache.layout, "value")
    params.v_block_stride, params.v_token_stride, params.v_head_stride = (
        values.block,
        values.token,
        values.head,
    )
    params.v_dim_stride = values.dim
