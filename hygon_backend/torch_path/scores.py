"""Softmax attention over dense keys and values, with every modifier the operators know."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 (the name everyone uses)

from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.torch_path.gather import DenseKV

_LOGIT_ELEMENTS = 1 << 24
"""Bound on the logits the explicit path holds at once (64 MiB of float32)."""

_MIN_PARTITION = 128
"""Smallest partition the explicit path chooses by itself, in keys."""


def first_visible(position: int, window: int | None) -> int:
    """First key position that a query at `position` sees; at least 0."""
    return 0 if window is None else max(0, position - window + 1)


def visibility(q_position: torch.Tensor, kv: DenseKV, rules: ScoreRules) -> torch.Tensor:
    """Boolean mask `[S, R, T]` (True: visible) for query positions `[S, R]`."""
    key = kv.position[:, None, :]
    query = q_position[:, :, None]
    mask = torch.ones(query.shape[0], query.shape[1], key.shape[2], dtype=torch.bool, device=key.device)
    if kv.valid is not None:
        mask &= kv.valid[:, None, :]
    if kv.allowed is not None:
        mask &= kv.allowed
    if rules.causal:
        mask &= key <= query
    if rules.window is not None:
        mask &= key > query - rules.window
    return mask


def attend_fused(
    q: torch.Tensor, q_position: torch.Tensor, kv: DenseKV, rules: ScoreRules, *, square: bool
) -> torch.Tensor:
    """Attention through torch's fused kernel: `q` `[S, R, Hq, D]` gives `[S, R, Hq, Dv]`.

    Args:
        q: queries, same dtype as `kv`.
        q_position: `[S, R]`.
        kv: dense keys and values.
        rules: must satisfy `fused_kernel_suffices`.
        square: queries and keys cover the same positions, so the kernel's own causal mask (aligned
            top-left) is the right one and its early exit is used.
    """
    k, v = kv.k.transpose(1, 2), kv.v.transpose(1, 2)
    heads_q, heads_kv, rows = q.shape[2], kv.k.shape[2], q.shape[1]
    if rows == 1 and kv.allowed is None:
        # One query per sequence: the heads of a group become the rows of one small matrix product,
        # which reads each key once for the whole group.
        grouped = q.reshape(q.shape[0], heads_kv, heads_q // heads_kv, q.shape[3])
        mask = None
        if kv.valid is not None:
            mask = visibility(q_position, kv, rules)[:, None]
        out = F.scaled_dot_product_attention(grouped, k, v, attn_mask=mask, scale=rules.scale)
        return out.flatten(1, 2)[:, None]
    # The kernel's own causal mask is -inf before the scale: a scale of 0 or below would make it NaN.
    unmasked = rules.window is None and kv.valid is None and kv.allowed is None
    triangle = square and rules.causal and unmasked and rules.scale > 0
    everything = not rules.causal and unmasked
    mask = None if triangle or everything else visibility(q_position, kv, rules)[:, None]
    out = F.scaled_dot_product_attention(
        q.transpose(1, 2),
        k,
        v,
        attn_mask=mask,
        is_causal=triangle,
        scale=rules.scale,
        enable_gqa=heads_q != heads_kv,
    )
    return out.transpose(1, 2)


def attend_explicit(
    q: torch.Tensor,
    q_position: torch.Tensor,
    kv: DenseKV,
    rules: ScoreRules,
    partition_size: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with all modifiers and LSE, in float32, split over the keys and combined.

    Args:
        q: `[S, R, Hq, D]`.
        q_position: `[S, R]`.
        kv: dense keys and values.
        rules: any.
        partition_size: keys per partition; None for the largest that bounds the logits.

    Returns:
        out `[S, R, Hq, Dv]` and lse `[S, R, Hq]`, both float32.
    """
    heads_q, heads_kv = q.shape[2], kv.k.shape[2]
    grouped = (
        q.float().reshape(*q.shape[:2], heads_kv, heads_q // heads_kv, q.shape[3]).permute(0, 2, 3, 1, 4)
    )
    num_tokens = kv.k.shape[1]
    row_logits = q.shape[0] * q.shape[1] * heads_q
    step = partition_size or max(_MIN_PARTITION, _LOGIT_ELEMENTS // max(row_logits, 1))
    mask = visibility(q_position, kv, rules)[:, None, None]
    outs, lses = [], []
    for start in range(0, num_tokens, step):
        part = slice(start, start + step)
        logits = torch.einsum("shgrd,sthd->shgrt", grouped, kv.k[:, part].float()) * rules.scale
        if rules.softcap is not None:
            logits = rules.softcap * torch.tanh(logits / rules.softcap)
        if rules.alibi_slopes is not None:
            slope = rules.alibi_slopes.float().view(1, heads_kv, -1, 1, 1)
            distance = kv.position[:, None, part] - q_position[:, :, None]
            logits = logits + slope * distance[:, None, None]
        logits = logits.masked_fill(~mask[..., part], -math.inf)
        out, lse = _softmax_state(logits, kv.v[:, part].float())
        outs.append(out)
        lses.append(lse)
    if rules.sinks is not None:
        # A sink is a state of its own: no output, and its logit as LSE.
        shape = (q.shape[0], heads_kv, heads_q // heads_kv, q.shape[1])
        outs.append(torch.zeros(*shape, kv.v.shape[3], device=q.device))
        lses.append(rules.sinks.float().view(1, heads_kv, -1, 1).expand(shape))
    out, lse = combine(torch.stack(outs), torch.stack(lses))
    return out.permute(0, 3, 1, 2, 4).flatten(2, 3), lse.permute(0, 3, 1, 2).flatten(2, 3)


def _softmax_state(logits: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised output `[S, H, G, R, Dv]` and LSE `[S, H, G, R]` of one partition."""
    weights, total, lse = _exponentials(logits, dim=-1)
    return torch.einsum("shgrt,sthd->shgrd", weights, v) / total[..., None], lse


def _exponentials(logits: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weights, their sum, LSE) along one axis; where all logits are -inf: (0, 1, -inf).

    The weights are relative to the largest logit, not to the LSE: near 60,000 an LSE is off by up to
    0.002 in float32, and weights relative to it would not add up to 1.
    """
    top = logits.amax(dim, keepdim=True)
    top = top.masked_fill(torch.isneginf(top), 0.0)
    weights = torch.exp(logits - top)
    total = weights.sum(dim)
    return weights, total.masked_fill(total == 0, 1.0), torch.log(total) + top.squeeze(dim)


def combine(outs: torch.Tensor, lses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Merges `P` partial results over disjoint keys (source document, section 1.4, "combine").

    With LSE in place of (max, sum), partition p weighs `exp(lse_p - M)`, divided by the sum of all
    weights, where M is the largest LSE.

    Args:
        outs: `[P, ..., D]` normalised outputs.
        lses: `[P, ...]` natural-log LSEs; -inf marks an empty partition, whose output is ignored.

    Returns:
        out `[..., D]` and lse `[...]`; where all partitions are empty, 0 and -inf.
    """
    weights, total, lse = _exponentials(lses, dim=0)
    # Select rather than multiply by zero: an empty partition's output may be NaN.
    weighted = torch.where(torch.isneginf(lses)[..., None], 0.0, weights[..., None] * outs)
    return weighted.sum(0) / total[..., None], lse
