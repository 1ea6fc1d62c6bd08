"""Drivers of the PyTorch path: batching of decodes, tiling of prefills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.prefill_call import PrefillCall, RaggedTable
from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.torch_path.gather import DenseKV, gather_dense
from hygon_backend.torch_path.scores import attend_explicit, attend_fused, first_visible, visibility

_GATHER_BYTES = 64 << 20
"""Bound on the gathered keys and values of one decode group; a longer sequence is a group of its own."""

_PADDING_RATIO = 0.75
"""A decode group's shortest sequence has at least this share of its longest one's tokens, so that
padding costs at most a third more than the tokens themselves."""

_SMALL_TOKENS = 256
"""Below this many tokens a sequence joins any group: a further call costs more than its padding."""

_QUERY_TILE = 512
"""Query rows per prefill tile: bounds the mask and, in the explicit path, the logits."""


def paged_decode(
    q: torch.Tensor,
    cache: PagedCache,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    rules: ScoreRules,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    partition_size: int | None,
) -> None:
    """Attention of the last `R` tokens of each sequence, written to `out` (and `lse`).

    Args:
        q: `[S, R, Hq, D]`.
        cache: the paged cache.
        block_table: `[S, max_blocks]`.
        seq_lens: `[S]`.
        rules: causal.
        out: `[S, R, Hq, Dv]`, written whole.
        lse: `[S, R, Hq]` float32 or None.
        partition_size: keys per partition of the explicit path.
    """
    lengths: list[int] = seq_lens.tolist()
    rows = q.shape[1]
    _fill_empty(out, lse, rules)
    compute_dtype = _compute_dtype(q, cache)
    token_bytes = (cache.k_cache[:1].numel() + cache.v_cache[:1].numel()) // cache.block_size
    token_bytes *= compute_dtype.itemsize
    live = [index for index, length in enumerate(lengths) if length > 0 and rows > 0]
    for group in _groups(live, lengths, max(token_bytes, 1)):
        ends = [lengths[i] for i in group]
        firsts = [first_visible(max(end - rows, 0), rules.window) for end in ends]
        everything = len(group) == len(lengths)
        index = None if everything else torch.tensor(group, device=q.device)
        q_group = q if index is None else q.index_select(0, index)
        table = block_table if index is None else block_table.index_select(0, index)
        kv = gather_dense(cache, table, firsts, ends, compute_dtype)
        q_position = torch.tensor(ends, device=q.device)[:, None] - rows + torch.arange(rows, device=q.device)
        result, state = _attend(q_group, q_position, kv, rules, lse is not None, partition_size, square=False)
        if rows > max(1, min(ends)) and state is None:
            # Rows before the start of their sequence see nothing; the fused kernel leaves NaN there.
            result = result.masked_fill((q_position < 0)[..., None, None], 0.0)
        if index is None:
            out.copy_(result)
        else:
            out.index_copy_(0, index, result.to(out.dtype))
        if lse is not None and state is not None:
            if index is None:
                lse.copy_(state)
            else:
                lse.index_copy_(0, index, state)


def prefix_prefill(call: PrefillCall) -> None:
    """Varlen attention of new tokens over the cache, written to `call.out` (and `call.lse`)."""
    q, rules = _dequantise_queries(call)
    out, lse, mask = call.out, call.lse, call.custom_mask
    cache = call.cache
    table = call.table.paged() if isinstance(call.table, RaggedTable) else call.table
    offsets: list[int] = call.cu_seqlens_q.tolist()
    lengths: list[int] = table.seq_lens.tolist()
    _fill_empty(out, lse, rules)
    if mask is not None:
        rules = replace(rules, causal=False)
    for row, len_k in enumerate(lengths):
        start, stop = offsets[row], offsets[row + 1]
        shift = len_k - (stop - start)
        # Rows before position 0 see no key: they keep the value of an empty row.
        lead = max(0, -shift) if rules.causal else 0
        if len_k == 0 or stop - start <= lead:
            continue
        base = start + lead
        origin = first_visible(shift + lead, rules.window)
        kv = gather_dense(
            cache, table.block_table[row : row + 1], [origin], [len_k], _compute_dtype(q, cache)
        )
        allowed = None if mask is None else mask.visible(row, stop - start, len_k)[None, :, origin:]
        # torch's own causal mask needs no tiles: it is not stored, and it exits early by itself.
        own_mask = shift <= 0 and rules.window is None and rules.scale > 0 and mask is None
        whole = own_mask and rules.fused_kernel_suffices and lse is None and call.partition_size is None
        tile = stop - base if whole else _QUERY_TILE
        for low in range(base, stop, tile):
            high = min(low + tile, stop)
            q_position = torch.arange(low - start + shift, high - start + shift, device=q.device)[None]
            # Early exit: keys behind the tile's last row, or before its first row's window, are cut.
            key_end = (high - start + shift if rules.causal else len_k) - origin
            key_start = first_visible(low - start + shift, rules.window) - origin
            part = slice(key_start, key_end)
            tile_kv = DenseKV(
                kv.k[:, part],
                kv.v[:, part],
                kv.position[:, part],
                None,
                None if allowed is None else allowed[:, low - start : high - start, part],
            )
            result, state = _attend(
                q[None, low:high],
                q_position,
                tile_kv,
                rules,
                lse is not None,
                call.partition_size,
                square=high - low == key_end - key_start,
            )
            if allowed is not None and state is None:
                # The fused kernel leaves NaN where a row sees nothing.
                sees = visibility(q_position, tile_kv, rules).any(2)
                result = result.masked_fill(~sees[..., None, None], 0.0)
            out[low:high] = result[0]
            if lse is not None and state is not None:
                lse[low:high] = state[0]


def _dequantise_queries(call: PrefillCall) -> tuple[torch.Tensor, ScoreRules]:
    """Queries in out's dtype, which holds any fp8 value, and rules whose scale has taken theirs in."""
    rules = call.rules
    if call.q_scale is not None:
        rules = replace(rules, scale=rules.scale * float(call.q_scale))
    return call.q.to(call.out.dtype), rules


def _attend(
    q: torch.Tensor,
    q_position: torch.Tensor,
    kv: DenseKV,
    rules: ScoreRules,
    want_lse: bool,
    partition_size: int | None,
    *,
    square: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Chooses between torch's fused kernel and the explicit path; LSE is None from the former."""
    if rules.fused_kernel_suffices and not want_lse and partition_size is None:
        return attend_fused(q.to(kv.k.dtype), q_position, kv, rules, square=square), None
    return attend_explicit(q, q_position, kv, rules, partition_size)


def _compute_dtype(q: torch.Tensor, cache: PagedCache) -> torch.dtype:
    """Element type of the arithmetic: the query's, unless the cache holds more than it can."""
    return torch.promote_types(q.dtype, cache.k_cache.dtype) if cache.k_cache.itemsize > 1 else q.dtype


def _fill_empty(out: torch.Tensor, lse: torch.Tensor | None, rules: ScoreRules) -> None:
    """Writes the value of a row without keys everywhere: output 0, LSE -inf or the sink."""
    out.zero_()
    if lse is not None:
        if rules.sinks is None:
            lse.fill_(float("-inf"))
        else:
            lse.copy_(rules.sinks.float().expand_as(lse))


def _groups(live: list[int], lengths: list[int], token_bytes: int) -> Iterator[list[int]]:
    """Splits sequences into groups of similar length whose gathered data stays bounded.

    Sequences of one group come in rising index order, so that a group of all needs no copy of q.
    """
    ordered = sorted(live, key=lambda i: -lengths[i])
    group: list[int] = []
    for index in ordered:
        if group:
            longest = lengths[group[0]]
            fits = (len(group) + 1) * longest * token_bytes <= _GATHER_BYTES
            similar = longest <= _SMALL_TOKENS or lengths[index] >= _PADDING_RATIO * longest
            if not (fits and similar):
                yield sorted(group)
                group = []
        group.append(index)
    if group:
        yield sorted(group)
