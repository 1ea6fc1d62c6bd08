"""The vendor's names for the attention operators, for code that was written against them.

Thin wrappers: argument names and meanings follow the vendor's varlen entry points (source document, section
5.3), everything else is `hygon_backend.ops`. `layout` is the vendor's integer, 0 for bhsd and 1 for bshd; its
`paged_attention` calls bshd 2, since its host code then swaps the axes of block size and heads. All entry
points here take all three.

What the vendor leaves to the caller stays so: page ids are read on the device and not checked. (Lengths are
checked where they lie in host memory.)
"""

from __future__ import annotations

import torch

from hygon_backend import ops
from hygon_backend.calls.scale import Scale
from hygon_backend.errors import reject


def hg_prefix_prefill_varlen_fwd(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqlens_k: torch.Tensor,
    *,
    softmax_scale: float | None = None,
    layout: int = 1,
    causal: bool = True,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    scales_q: Scale = None,
    scales_k: Scale = None,
    scales_v: Scale = None,
    out: torch.Tensor | None = None,
    return_softmax_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`ops.prefix_prefill`: new tokens of several sequences over a paged cache that holds them.

    Args:
        q: `[T, Hq, D]`.
        k_cache: paged keys in `layout`.
        v_cache: paged values in `layout`.
        block_table: `[num_seqs, max_blocks]`.
        cu_seqlens_q: `[num_seqs + 1]`.
        seqlens_k: `[num_seqs]` key counts, new tokens included.
        softmax_scale: `1 / sqrt(D)` when None.
        layout: 0 (bhsd), or 1 or 2 (bshd; see the module).
        causal: apply the shifted causal mask.
        window_size: keys seen to the left and right of the own one, -1 for all; to the right only -1 or 0,
            which makes the call causal.
        softcap: logit cap, 0 for none.
        scales_q: factor of stored queries (fp8).
        scales_k: factor of stored keys (fp8).
        scales_v: factor of stored values (fp8).
        out: `[T, Hq, Dv]`, written in place.
        return_softmax_lse: also return the natural-log LSE `[T, Hq]`.

    Returns:
        `out`, or `(out, lse)`.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    return ops.prefix_prefill(
        q,
        k_cache,
        v_cache,
        block_table,
        cu_seqlens_q,
        seqlens_k,
        scale=softmax_scale,
        layout=layout,
        causal=causal or window_size[1] == 0,
        window=_window(window_size),
        softcap=softcap,
        q_scale=scales_q,
        k_scale=scales_k,
        v_scale=scales_v,
        out=out,
        return_lse=return_softmax_lse,
    )


def hg_prefix_decode_varlen_fwd(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seqlens_k: torch.Tensor,
    *,
    softmax_scale: float | None = None,
    layout: int = 1,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    scales_k: Scale = None,
    scales_v: Scale = None,
    out: torch.Tensor | None = None,
    return_softmax_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`ops.paged_decode`: the newest token, or `q_len` of them, of every sequence.

    Args:
        q: `[num_seqs, Hq, D]` or `[num_seqs, q_len, Hq, D]`.
        k_cache: see `hg_prefix_prefill_varlen_fwd`, like all further arguments.
        v_cache: see `hg_prefix_prefill_varlen_fwd`.
        block_table: see `hg_prefix_prefill_varlen_fwd`.
        seqlens_k: see `hg_prefix_prefill_varlen_fwd`.
        softmax_scale: see `hg_prefix_prefill_varlen_fwd`.
        layout: see `hg_prefix_prefill_varlen_fwd`.
        window_size: see `hg_prefix_prefill_varlen_fwd`.
        softcap: see `hg_prefix_prefill_varlen_fwd`.
        scales_k: see `hg_prefix_prefill_varlen_fwd`.
        scales_v: see `hg_prefix_prefill_varlen_fwd`.
        out: of q's shape with `Dv` last.
        return_softmax_lse: see `hg_prefix_prefill_varlen_fwd`.

    Returns:
        `out`, or `(out, lse)`.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    return ops.paged_decode(
        q,
        k_cache,
        v_cache,
        block_table,
        seqlens_k,
        scale=softmax_scale,
        layout=layout,
        window=_window(window_size),
        softcap=softcap,
        k_scale=scales_k,
        v_scale=scales_v,
        out=out,
        return_lse=return_softmax_lse,
    )


def paged_attention(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    scale: float,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    layout: int = 0,
    alibi_slopes: torch.Tensor | None = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
) -> None:
    """`ops.paged_decode` into `out`, in the manner of vLLM's first kernels.

    Args:
        out: `[num_seqs, Hq, Dv]`, written in place.
        q: `[num_seqs, Hq, D]`.
        k_cache: paged keys in `layout`.
        v_cache: paged values in `layout`.
        scale: factor of the dot product.
        block_tables: `[num_seqs, max_blocks]`.
        context_lens: `[num_seqs]` key counts.
        layout: 0 (bhsd), 1 or 2 (bshd; see the module).
        alibi_slopes: `[Hq]`.
        k_scale: factor of stored keys (fp8).
        v_scale: factor of stored values (fp8).

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    ops.paged_decode(
        q,
        k_cache,
        v_cache,
        block_tables,
        context_lens,
        scale=scale,
        layout=layout,
        alibi_slopes=alibi_slopes,
        k_scale=k_scale,
        v_scale=v_scale,
        out=out,
    )


def _window(window_size: tuple[int, int]) -> int | None:
    """Visible keys, the own one included, from counts of keys to its left and right."""
    left, right = window_size
    if right not in (-1, 0):
        raise reject("window_size[1]", right, "-1 or 0: what lies to the right is the mask's matter")
    if left < -1:
        raise reject("window_size[0]", left, "-1 (all keys) or above")
    return None if left == -1 else left + 1
