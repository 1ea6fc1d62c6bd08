"""The oracle: every operator in float64, written for clarity, one sequence at a time.

All backends are tested against this module and it is tested against hand-computed cases and plain
softmax attention. It shares no arithmetic with the fast paths.

Semantics, the same for every operator:

* Row `i` of a sequence with `Lq` queries and `Lk` keys stands at position `p = i + (Lk - Lq)`: the
  queries are the last tokens. Causal attention lets it see keys `j <= p` (source document, 3.2).
* A custom mask replaces the causal rule among the sequence's own new tokens (tree speculation).
* `window = W` lets it see the last `W` keys up to and including its own position: `j > p - W`.
* A logit is `scale * <q, k>`, then `softcap * tanh(logit / softcap)`, then plus
  `alibi_slope * (j - p)`.
* A sink is a further logit per query head with no value: it enlarges the denominator only.
* LSE is the natural logarithm of the denominator, the sink included.
* A row that sees no key has output 0, and LSE -inf (or the sink's logit where there is one).
* NaN and infinity in a value spoil every query row of the call that may share a tile with it, even
  rows that do not see the key: its weight there is 0, and 0 times NaN is NaN. Bytes past `seq_len`
  and in front of all rows' windows belong to no row and reach none.
* fp8 caches hold `x / scale`, saturated to the largest finite value; NaN stays NaN.
"""

from __future__ import annotations

import math

import torch

from hygon_backend.kv_layout import KVLayout, parse_layout, token_major_view

Scale = float | torch.Tensor | None


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    custom_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one sequence over contiguous keys and values.

    Args:
        q: `[Lq, Hq, D]`, any float dtype.
        k: `[Lk, Hkv, D]`; `Hq` is a multiple of `Hkv`.
        v: `[Lk, Hkv, Dv]`.
        scale: factor of the dot product; `1 / sqrt(D)` when None.
        causal: apply the shifted causal mask.
        window: number of visible keys, the own position included; None for all.
        softcap: logit cap; None or 0 for none.
        sinks: `[Hq]` natural-log-unit logits.
        alibi_slopes: `[Hq]`.
        custom_mask: `[Lq, Lk]`, not 0 where a query sees a key among the last `Lq`, in place of the causal
            mask; the keys before them are seen by all.

    Returns:
        out `[Lq, Hq, Dv]` and lse `[Lq, Hq]`, both float64.
    """
    len_q, heads_q, dim = q.shape
    len_k, heads_kv = k.shape[0], k.shape[1]
    group = heads_q // heads_kv
    factor = 1.0 / math.sqrt(dim) if scale is None else scale

    out = torch.zeros(len_q, heads_q, v.shape[2], dtype=torch.float64)
    lse = torch.full((len_q, heads_q), -math.inf, dtype=torch.float64)
    position = torch.arange(len_q)[:, None] + (len_k - len_q)
    key = torch.arange(len_k)[None, :]
    visible = torch.ones(len_q, len_k, dtype=torch.bool)
    if custom_mask is not None:
        visible &= (key < len_k - len_q) | (custom_mask != 0)
    elif causal:
        visible &= key <= position
    if window is not None:
        visible &= key > position - window

    for head in range(heads_q):
        logits = factor * (q[:, head].double() @ k[:, head // group].double().T)
        if softcap:
            logits = softcap * torch.tanh(logits / softcap)
        if alibi_slopes is not None:
            logits = logits + float(alibi_slopes[head]) * (key - position)
        logits = logits.masked_fill(~visible, -math.inf)
        values = v[:, head // group].double()
        if sinks is not None:
            # A sink is one more key whose value is zero.
            sink = sinks[head].double().expand(len_q, 1)
            logits = torch.cat([logits, sink], dim=1)
            values = torch.cat([values, torch.zeros(1, values.shape[1], dtype=torch.float64)])
        lse[:, head] = torch.logsumexp(logits, dim=1)
        empty = torch.isneginf(lse[:, head, None])
        weights = torch.where(empty, 0.0, torch.exp(logits - lse[:, head, None]))
        out[:, head] = weights @ values
    return out, lse


def read_sequence(
    cache: torch.Tensor,
    layout: KVLayout | str | int,
    part: str,
    block_table_row: torch.Tensor,
    seq_len: int,
    scale: Scale = None,
) -> torch.Tensor:
    """Collects the first `seq_len` tokens of one sequence: `[seq_len, Hkv, D]` in float64.

    Reads exactly `ceil(seq_len / block_size)` table entries and no byte past `seq_len`.
    """
    view = token_major_view(cache, parse_layout(layout), "key" if part == "key" else "value")
    block_size = view.shape[1]
    tokens = [view[int(block_table_row[t // block_size]), t % block_size].double() for t in range(seq_len)]
    heads = view.shape[2]
    if not tokens:
        return torch.zeros(0, heads, math.prod(view.shape[3:]), dtype=torch.float64)
    return torch.stack(tokens).flatten(2) * per_head(scale, heads)


def per_head(scale: Scale, heads: int) -> torch.Tensor:
    """Turns None, a number, a one-element or a per-head tensor into a `[heads, 1]` factor."""
    if scale is None:
        return torch.ones(heads, 1, dtype=torch.float64)
    return torch.as_tensor(scale, dtype=torch.float64).reshape(-1, 1).expand(heads, 1)


def prefix_prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    layout: KVLayout | str | int = KVLayout.BSHD,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    q_scale: Scale = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
    custom_mask: torch.Tensor | None = None,
    mask_indptr: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Varlen attention of new tokens over a paged cache that already holds them.

    Args:
        q: `[T, Hq, D]`, the new tokens of all sequences, packed.
        k_cache: key cache in `layout`.
        v_cache: value cache in `layout`.
        block_table: `[num_seqs, max_blocks]` page ids.
        cu_seqlens_q: `[num_seqs + 1]` prefix sums of query lengths.
        seq_lens: `[num_seqs]` key lengths, new tokens included.
        layout: see `hygon_backend.kv_layout`.
        scale: see `attend`, like the arguments up to `alibi_slopes`.
        causal: see `attend`.
        window: see `attend`.
        softcap: see `attend`.
        sinks: see `attend`.
        alibi_slopes: see `attend`.
        k_scale: factor that turns stored keys into keys; number, `[1]` or `[Hkv]`.
        q_scale: the same for queries; number or `[1]`.
        v_scale: the same for values.
        custom_mask: flat; sequence `s` has its `[Lq, Lk]` entries at `mask_indptr[s]`. See `attend`.
        mask_indptr: `[num_seqs]` or more offsets.

    Returns:
        out `[T, Hq, Dv]` and lse `[T, Hq]` in float64.
    """
    outs, lses = [], []
    for row in range(len(seq_lens)):
        start, end = int(cu_seqlens_q[row]), int(cu_seqlens_q[row + 1])
        length = int(seq_lens[row])
        k = read_sequence(k_cache, layout, "key", block_table[row], length, k_scale)
        v = read_sequence(v_cache, layout, "value", block_table[row], length, v_scale)
        mask = None
        if custom_mask is not None and mask_indptr is not None:
            first = int(mask_indptr[row])
            mask = custom_mask[first : first + (end - start) * length].view(end - start, length)
        out, lse = attend(
            q[start:end].double() * per_head(q_scale, 1),
            k,
            v,
            scale=scale,
            causal=causal,
            window=window,
            softcap=softcap,
            sinks=sinks,
            alibi_slopes=alibi_slopes,
            custom_mask=mask,
        )
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs), torch.cat(lses)


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    layout: KVLayout | str | int = KVLayout.BSHD,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the last token(s) of each sequence: `prefix_prefill` with equal query lengths.

    Args:
        q: `[num_seqs, Hq, D]`, or `[num_seqs, q_len, Hq, D]` for several tokens a sequence.
        k_cache: see `prefix_prefill`, like all further arguments.
        v_cache: see `prefix_prefill`.
        block_table: see `prefix_prefill`.
        seq_lens: see `prefix_prefill`.
        layout: see `prefix_prefill`.
        scale: see `attend`.
        window: see `attend`.
        softcap: see `attend`.
        sinks: see `attend`.
        alibi_slopes: see `attend`.
        k_scale: see `prefix_prefill`.
        v_scale: see `prefix_prefill`.

    Returns:
        out of q's shape with `Dv` as last axis, and lse without it, in float64.
    """
    q_len = q.shape[1] if q.dim() == 4 else 1
    num_seqs = q.shape[0]
    out, lse = prefix_prefill(
        q.reshape(num_seqs * q_len, *q.shape[-2:]),
        k_cache,
        v_cache,
        block_table,
        torch.arange(num_seqs + 1) * q_len,
        seq_lens,
        layout=layout,
        scale=scale,
        window=window,
        softcap=softcap,
        sinks=sinks,
        alibi_slopes=alibi_slopes,
        k_scale=k_scale,
        v_scale=v_scale,
    )
    return out.reshape(*q.shape[:-1], -1), lse.reshape(q.shape[:-1])


def fp8_codes(dtype: torch.dtype) -> torch.Tensor:
    """The 256 values an fp8 dtype can hold, by code, in float64."""
    return torch.arange(256, dtype=torch.uint8).view(dtype).double()


def quantise_fp8(x: torch.Tensor, dtype: torch.dtype, scale: Scale = None) -> torch.Tensor:
    """Nearest fp8 value of `x / scale` (ties to the even code), saturating, NaN kept.

    Args:
        x: `[..., heads, D]`.
        dtype: `torch.float8_e4m3fn` or `torch.float8_e5m2`.
        scale: number, `[1]` or `[heads]`.

    Returns:
        A tensor of `dtype`, found by searching all codes rather than by a conversion instruction.
    """
    codes = fp8_codes(dtype)
    finite = torch.arange(256)[codes.isfinite()]
    target = x.double() / per_head(scale, x.shape[-2])
    best = torch.zeros(target.shape, dtype=torch.int64)
    distance = torch.full(target.shape, math.inf, dtype=torch.float64)
    limit = codes[finite].max()
    clipped = target.clamp(-limit, limit)
    for code in finite.tolist():
        gap = (clipped - codes[code]).abs()
        closer = (gap < distance) | ((gap == distance) & (code % 2 == 0) & (best % 2 == 1))
        best = torch.where(closer, code, best)
        distance = torch.where(closer, gap, distance)
    best = torch.where(torch.signbit(target) & (best == 0), 128, best)  # minus zero keeps its sign
    nan_code = int(torch.arange(256)[codes.isnan()][0])
    best = torch.where(target.isnan(), nan_code, best)
    return best.to(torch.uint8).view(dtype)


def write_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    layout: KVLayout | str | int = KVLayout.BSHD,
    k_scale: Scale = None,
    v_scale: Scale = None,
) -> None:
    """Stores token `t` at slot `slot_mapping[t] = block * block_size + offset`, in place.

    Args:
        k: `[T, Hkv, D]`.
        v: `[T, Hkv, Dv]`.
        k_cache: changed in place.
        v_cache: changed in place.
        slot_mapping: `[T]`; a negative slot skips its token.
        layout: see `hygon_backend.kv_layout`.
        k_scale: stored keys are `k / k_scale`.
        v_scale: stored values are `v / v_scale`.
    """
    parsed = parse_layout(layout)
    keys = token_major_view(k_cache, parsed, "key")
    values = token_major_view(v_cache, parsed, "value")
    block_size = keys.shape[1]
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot < 0:
            continue
        for source, view, scale in ((k, keys, k_scale), (v, values, v_scale)):
            row = source[token]
            if view.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                row = quantise_fp8(row, view.dtype, scale)
            elif scale is not None:
                row = (row.double() / per_head(scale, row.shape[0])).to(view.dtype)
            view[slot // block_size, slot % block_size] = row.reshape(view.shape[2:]).to(view.dtype)


def copy_blocks(cache: torch.Tensor, block_mapping: torch.Tensor) -> None:
    """Copies page `src` over page `dst` for each `(src, dst)` row of `block_mapping`, in place."""
    for src, dst in block_mapping.tolist():
        cache[dst] = cache[src].clone()


def merge_states(
    o_a: torch.Tensor, lse_a: torch.Tensor, o_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merges two partial attention results over disjoint keys (source document, section 1.4).

    Args:
        o_a: `[T, H, D]` normalised output over the first set of keys.
        lse_a: `[T, H]` natural-log sum of exponentials of that set; -inf when it is empty.
        o_b: the same over the second set.
        lse_b: the same over the second set.

    Returns:
        out `[T, H, D]` and lse `[T, H]` in float64; empty with empty is 0 and -inf.
    """
    lse = torch.logaddexp(lse_a.double(), lse_b.double())
    parts = []
    for o, side in ((o_a.double(), lse_a.double()), (o_b.double(), lse_b.double())):
        # An empty side may hold anything, NaN included: select, do not multiply by zero.
        empty = torch.isneginf(side)[..., None]
        parts.append(torch.where(empty, 0.0, torch.exp(side - lse)[..., None] * o))
    return parts[0] + parts[1], lse
