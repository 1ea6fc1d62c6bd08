"""Calls the native paged decode: describes tensors to it and owns its workspace."""

from __future__ import annotations

import logging
from types import ModuleType

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import FP8_DTYPES
from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.native_path.attention_params import (
    set_cache,
    set_queries,
    set_results,
    set_rules,
    set_workspace,
)
from hygon_backend.native_path.common import LARGEST_PARTITION, call_stream, set_index

_log = logging.getLogger(__name__)

_QUERY_DTYPES = (torch.float16, torch.bfloat16)


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
    q = set_queries(params, q, keep)
    params.q_seq_stride = q.stride(0)
    params.num_seqs, params.q_len = q.shape[:2]
    set_cache(params, cache, keep)
    params.max_blocks = block_table.shape[1]
    set_index(params, "block_table", block_table)
    set_index(params, "seq_lens", seq_lens)
    set_rules(params, rules, keep)
    set_results(params, out, lse)
    params.out_seq_stride = out.stride(0)
    if lse is not None:
        params.lse_seq_stride = lse.stride(0)

    with call_stream(q.device) as stream:
        module.choose_partitions(params, min(partition_size or 0, LARGEST_PARTITION))
        _log.debug(
            "paged_decode: %d partitions of at least %d keys for %d sequences of up to %d pages",
            params.num_partitions,
            params.partition_size,
            params.num_seqs,
            params.max_blocks,
        )
        set_workspace(params, module.paged_decode_workspace_bytes(params), q.device, keep)
        module.paged_decode(params, stream)
