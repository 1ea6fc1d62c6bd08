"""Describes to the kernels what every attention call has: cache, table, score rules and results."""

from __future__ import annotations

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.kv_layout import token_major_view
from hygon_backend.native_path.common import ELEMENT_TYPES, Struct, cache_strides, set_scale

_LARGEST_WINDOW = 1 << 30


def set_queries(params: Struct, q: torch.Tensor, keep: list[torch.Tensor]) -> torch.Tensor:
    """Describes queries `[..., Hq, D]` and returns what the kernel reads: heads dense, for runs of them.

    Tensors made on the way are added to `keep`, here and below.
    """
    if q.stride(-1) != 1:
        q = q.contiguous()
        keep.append(q)
    params.q = q.data_ptr()
    params.q_token_stride, params.q_head_stride = q.stride()[-3:-1]
    params.query_type = ELEMENT_TYPES[q.dtype]
    params.num_heads, params.head_size = q.shape[-2:]
    return q


def set_cache(params: Struct, cache: PagedCache, keep: list[torch.Tensor]) -> None:
    """Describes the key and value caches with their scales."""
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
    set_scale(params, "k_scale", cache.k_scale, keep)
    set_scale(params, "v_scale", cache.v_scale, keep)


def set_rules(params: Struct, rules: ScoreRules, keep: list[torch.Tensor]) -> None:
    """Describes what is done to the logits."""
    for name, per_head in (("sinks", rules.sinks), ("alibi_slopes", rules.alibi_slopes)):
        if per_head is not None:
            dense = per_head.to(torch.float32).contiguous()
            keep.append(dense)
            setattr(params, name, dense.data_ptr())
    params.scale = rules.scale
    params.window = min(rules.window or 0, _LARGEST_WINDOW)
    params.softcap = rules.softcap or 0.0


def set_results(params: Struct, out: torch.Tensor, lse: torch.Tensor | None) -> None:
    """Describes where output and LSE go."""
    params.out = out.data_ptr()
    params.out_token_stride, params.out_head_stride, params.out_dim_stride = out.stride()[-3:]
    params.head_size_v = out.shape[-1]
    if lse is not None:
        params.lse = lse.data_ptr()
        params.lse_token_stride, params.lse_head_stride = lse.stride()[-2:]


def set_workspace(params: Struct, num_bytes: int, device: torch.device, keep: list[torch.Tensor]) -> None:
    """Allocates the workspace, if one is needed."""
    if num_bytes:
        workspace = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        keep.append(workspace)
        params.workspace = workspace.data_ptr()
