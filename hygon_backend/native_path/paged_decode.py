"""Calls the native paged decode: describes tensors to it and owns its workspace."""

from __future__ import annotations

import logging
from types import ModuleType

import torch

from hygon_backend.kv_layout import KVLayout
from hygon_backend.native_path.common import ELEMENT_TYPES, call_stream, set_index, set_scale
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


def _describe_cache(params: object, cache: PagedCache) -> None:
    """Fills in pointers, element type and strides of the key and value caches."""
    k_cache, v_cache = cache.k_cache, cache.v_cache
    fields: dict[str, int] = {
        "k_cache": k_cache.data_ptr(),
        "v_cache": v_cache.data_ptr(),
        "cache_type": ELEMENT_TYPES[k_cache.dtype],
        "block_size": cache.block_size,
    }
    if cache.layout is KVLayout.BSHD:
        names: tuple[str, ...] = ("block_stride", "token_stride", "head_stride", "dim_stride")
        fields["num_kv_heads"] = k_cache.shape[2]
    else:
        names = ("block_stride", "head_stride", "token_stride", "dim_stride")
        fields["num_kv_heads"] = k_cache.shape[1]
    value_names = names
    if cache.layout in (KVLayout.BHSD_VT, KVLayout.X_PACKED):
        value_names = ("block_stride", "head_stride", "dim_stride", "token_stride")
    if cache.layout is KVLayout.X_PACKED:
        names = ("block_stride", "head_stride", "pack_stride", "token_stride", "dim_stride")
        fields["k_pack"] = k_cache.shape[4]
    fields |= {f"k_{name}": stride for name, stride in zip(names, k_cache.stride(), strict=True)}
    fields |= {f"v_{name}": stride for name, stride in zip(value_names, v_cache.stride(), strict=True)}
    for name, value in fields.items():
        setattr(params, name, value)
