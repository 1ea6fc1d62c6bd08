"""Checks and bundles the arguments that several operators share."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from hygon_backend import validation
from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import Scale
from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.kv_layout import CacheGeometry, KVLayout, parse_layout


def open_cache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    layout: KVLayout | str | int,
    k_scale: Scale,
    v_scale: Scale,
    q_dtypes: tuple[torch.dtype, ...] = validation.QUERY_DTYPES,
) -> tuple[CacheGeometry, PagedCache]:
    """Checks q against the cache pair and bundles what reading the cache needs."""
    parsed = parse_layout(layout)
    sizes = validation.check_cache(k_cache, v_cache, parsed, q.device)
    heads = q.shape[-2]
    leading = (None,) * (q.dim() - 2)
    validation.check_tensor("q", q, (*leading, heads, sizes.head_size), q_dtypes)
    validation.check_heads(heads, sizes.num_kv_heads)
    validation.check_scale("k_scale", k_scale, sizes.num_kv_heads, q.device)
    validation.check_scale("v_scale", v_scale, sizes.num_kv_heads, q.device)
    return sizes, PagedCache(k_cache, v_cache, parsed, sizes.block_size, k_scale, v_scale)


def check_table(
    block_table: torch.Tensor, seq_lens: torch.Tensor, num_seqs: int, device: torch.device
) -> None:
    """Checks shapes, dtypes and devices of a block table and its lengths."""
    validation.check_tensor("seq_lens", seq_lens, (num_seqs,), validation.INDEX_DTYPES, device)
    validation.check_tensor("block_table", block_table, (num_seqs, None), validation.INDEX_DTYPES, device)


def score_rules(
    q: torch.Tensor,
    sizes: CacheGeometry,
    scale: float | None,
    causal: bool,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
    alibi_slopes: torch.Tensor | None,
) -> ScoreRules:
    """Checks the score modifiers and bundles them."""
    validation.check_per_head("sinks", sinks, q.shape[-2], q.device)
    validation.check_per_head("alibi_slopes", alibi_slopes, q.shape[-2], q.device)
    return ScoreRules(
        scale=validation.softmax_scale(scale, sizes.head_size),
        causal=validation.causal_mask(causal),
        window=validation.window_size(window, causal),
        softcap=validation.soft_cap(softcap),
        sinks=sinks,
        alibi_slopes=alibi_slopes,
    )


def values_are_free(tensor: torch.Tensor, validate: bool) -> bool:
    """Whether to read values for a check: asked for, or in host memory, where nothing waits for it."""
    return validate or tensor.device.type == "cpu"


def outputs(
    q: torch.Tensor,
    cache: PagedCache,
    head_size_v: int,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    return_lse: bool,
    also_read: Mapping[str, object],
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Checks the caller's output buffers, or allocates them; `dtype` is the output's, q's when None.

    What the call reads beside q and the cache is in `also_read`; only tensors among it matter. A kernel that
    overwrote its own table would follow what it wrote.
    """
    dtype = dtype or q.dtype
    shape = (*q.shape[:-1], head_size_v)
    inputs = {"q": q, "k_cache": cache.k_cache, "v_cache": cache.v_cache}
    if out is not None or lse is not None:
        inputs |= {name: item for name, item in also_read.items() if isinstance(item, torch.Tensor)}
    if out is None:
        out = q.new_empty(shape, dtype=dtype)
    else:
        validation.check_tensor("out", out, shape, (dtype,), q.device)
        validation.check_no_overlap("out", out, inputs)
    if lse is not None:
        validation.check_tensor("lse", lse, tuple(q.shape[:-1]), (torch.float32,), q.device)
        validation.check_no_overlap("lse", lse, {**inputs, "out": out})
    elif return_lse:
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    return out, lse
