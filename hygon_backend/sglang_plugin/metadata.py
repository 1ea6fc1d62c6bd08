"""Per-batch attention metadata: SGLang's token slots turned into block tables, once per forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hygon_backend.errors import UnsupportedError
from hygon_backend.sglang_plugin import verify_mask

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    from hygon_backend.sglang_plugin.pools import PagePools


@dataclass
class HygonMetadata:
    """One batch; all layers share it.

    Attributes:
        block_table: `[num_seqs, max_pages]` int32 pages of the full-attention pool.
        seq_lens: `[num_seqs]` int32 keys per sequence, this forward's own tokens included.
        cu_seqlens_q: `[num_seqs + 1]` int32 offsets of the queries; None in a decode, where every
            sequence has one.
        custom_mask: flat booleans as `ops.prefix_prefill` takes them, None for the causal rule.
        mask_indptr: `[num_seqs + 1]` int64 offsets into `custom_mask`.
        window_block_table: the same sequences' pages in the pool of sliding-window layers; None where
            the model has no such pool of its own.
        window_slots: `[num_tokens]` where this forward's tokens go in that pool.
        has_prefix: whether some sequence has keys from before this forward.
    """

    block_table: torch.Tensor
    seq_lens: torch.Tensor
    cu_seqlens_q: torch.Tensor | None = None
    custom_mask: torch.Tensor | None = None
    mask_indptr: torch.Tensor | None = None
    window_block_table: torch.Tensor | None = None
    window_slots: torch.Tensor | None = None
    has_prefix: bool = True


def build(batch: ForwardBatch, pools: PagePools) -> HygonMetadata:
    """Builds the metadata of a batch that runs eagerly.

    Everything that a layer reads is a copy: the scheduler prepares the next batch in SGLang's own
    tensors while this one is still running. No value on the device is waited for; the table is as
    wide as the longest sequence where SGLang knows lengths on the host, else as wide as it can get.
    """
    mode = batch.forward_mode
    draft_tokens = verify_mask.tokens_per_request(batch) if mode.is_target_verify() else 0
    if mode.is_decode_or_idle() or mode.is_target_verify():
        seq_lens = batch.seq_lens + draft_tokens
    elif mode.is_dllm_extend():
        raise UnsupportedError("diffusion language models are not supported: they attend to both sides")
    else:
        seq_lens = batch.extend_prefix_lens + batch.extend_seq_lens
    longest = None
    if batch.seq_lens_cpu is not None:
        longest = int(batch.seq_lens_cpu.max()) + draft_tokens if batch.batch_size else 0
    table = pools.block_table(batch.req_pool_indices, longest)
    metadata = HygonMetadata(
        block_table=table,
        seq_lens=seq_lens.to(torch.int32, copy=True),
        window_block_table=pools.window_block_table(table),
        window_slots=pools.window_slots(batch.out_cache_loc),
    )
    if mode.is_target_verify():
        metadata.cu_seqlens_q = verify_mask.uniform_offsets(seq_lens, draft_tokens)
        mask = batch.spec_info.custom_mask
        if mask is not None:
            metadata.custom_mask, metadata.mask_indptr = verify_mask.to_dense(
                mask, batch.seq_lens, draft_tokens
            )
    elif not mode.is_decode_or_idle():
        metadata.cu_seqlens_q = offsets(batch.extend_seq_lens)
        if batch.extend_prefix_lens_cpu is not None:
            metadata.has_prefix = any(batch.extend_prefix_lens_cpu)
    return metadata


def offsets(lengths: torch.Tensor) -> torch.Tensor:
    """Prefix sums from 0 of `[n]` lengths: `[n + 1]` int32."""
    sums = torch.zeros(lengths.shape[0] + 1, dtype=torch.int32, device=lengths.device)
    torch.cumsum(lengths, 0, dtype=torch.int32, out=sums[1:])
    return sums
