"""Calls the native prefix prefill: describes tensors to it and owns its workspace."""

from __future__ import annotations

import logging
from types import ModuleType

import torch

from hygon_backend.calls.prefill_call import PrefillCall, RaggedTable
from hygon_backend.calls.scale import FP8_DTYPES
from hygon_backend.native_path.attention_params import (
    set_cache,
    set_queries,
    set_results,
    set_rules,
    set_workspace,
)
from hygon_backend.native_path.common import (
    ELEMENT_TYPES,
    LARGEST_PARTITION,
    Struct,
    call_stream,
    set_index,
    set_scale,
)

_log = logging.getLogger(__name__)

_COMPUTE_DTYPES = (torch.float16, torch.bfloat16)


def supports(call: PrefillCall) -> bool:
    """Whether a kernel exists for these element types: half or bfloat16 output, queries and a cache of
    the same type or fp8."""
    dtype = call.out.dtype
    return dtype in _COMPUTE_DTYPES and all(
        other == dtype or other in FP8_DTYPES for other in (call.q.dtype, call.cache.k_cache.dtype)
    )


def run(module: ModuleType, call: PrefillCall) -> None:
    """Enqueues the call.

    Neither waits for the device nor depends on the values of lengths and offsets, so a graph that
    captured the call may be replayed with others of up to `T` tokens and as many keys as the table has
    entries for.

    Args:
        module: the extension module.
        call: see `PrefillCall`.
    """
    params = module.PrefixPrefillParams()
    # Read through pointers: what is made here must outlive the launch's enqueueing; the allocator then
    # keeps it for the stream.
    keep: list[torch.Tensor] = []
    set_queries(params, call.q, keep)
    params.num_tokens = call.q.shape[0]
    set_scale(params, "q_scale", call.q_scale, keep, per_head=False)
    set_cache(params, call.cache, keep)
    params.num_seqs = call.table.num_seqs
    set_index(params, "cu_seqlens_q", call.cu_seqlens_q)
    if isinstance(call.table, RaggedTable):
        set_index(params, "kv_indptr", call.table.kv_indptr)
        _set_ragged_table(params, call.table.kv_indices)
    else:
        set_index(params, "seq_lens", call.table.seq_lens)
        set_index(params, "block_table", call.table.block_table)
        params.max_blocks = call.table.block_table.shape[1]
    if call.custom_mask is not None:
        mask = call.custom_mask.mask.contiguous()
        keep.append(mask)
        params.custom_mask = mask.data_ptr()
        set_index(params, "mask_indptr", call.custom_mask.indptr)
    set_rules(params, call.rules, keep)
    params.causal = call.rules.causal
    params.out_type = ELEMENT_TYPES[call.out.dtype]
    set_results(params, call.out, call.lse)

    with call_stream(call.q.device) as stream:
        module.choose_prefill_partitions(params, min(call.partition_size or 0, LARGEST_PARTITION))
        _log.debug(
            "prefix_prefill: %d partitions of at least %d keys for %d tokens of %d sequences",
            params.num_partitions,
            params.partition_size,
            params.num_tokens,
            params.num_seqs,
        )
        set_workspace(params, module.prefix_prefill_workspace_bytes(params), call.q.device, keep)
        module.prefix_prefill(params, stream)


def _set_ragged_table(params: Struct, kv_indices: torch.Tensor) -> None:
    """Describes all sequences' pages as one row of the block table."""
    set_index(params, "block_table", kv_indices.unsqueeze(0))
    params.max_blocks = kv_indices.shape[0]
