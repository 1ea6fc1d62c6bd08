"""Metadata at fixed addresses, for batches that are captured in a graph and replayed.

What a captured kernel reads must lie where it lay at capture. So the buffers are allocated once at
their largest, captured batches see slices of them, and the operations that fill them are captured
too: a replay recomputes everything from SGLang's own static `req_pool_indices` and `seq_lens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.layers.attention.verify_mask import VerifyMask
from sglang.srt.speculative.eagle_utils import TreeMaskMode

from hygon_backend.errors import UnsupportedError, reject
from hygon_backend.sglang_plugin.metadata import HygonMetadata
from hygon_backend.sglang_plugin.verify_mask import tokens_per_request

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    from hygon_backend.sglang_plugin.pools import PagePools


class GraphState:
    """The buffers of one backend and the two halves of filling them."""

    def __init__(
        self,
        pools: PagePools,
        max_batch: int,
        max_tokens: int,
        device: torch.device,
        draft_tokens: int,
        max_context: int,
    ) -> None:
        """Allocates everything.

        Args:
            pools: the pools to make block tables for.
            max_batch: requests of the largest captured batch.
            max_tokens: tokens of the largest captured batch.
            device: where the graphs run.
            draft_tokens: draft tokens of each request in a verify batch, 0 where nothing is verified.
            max_context: tokens of the longest request.
        """
        self._pools = pools
        table = (max_batch, pools.max_pages)
        self._block_table = torch.zeros(table, dtype=torch.int32, device=device)
        self._seq_lens = torch.ones(max_batch, dtype=torch.int32, device=device)
        self._cu_seqlens_q = torch.zeros(max_batch + 1, dtype=torch.int32, device=device)
        self._window_block_table = self._window_slots = None
        if pools.has_window_pool:
            self._window_block_table = torch.zeros(table, dtype=torch.int32, device=device)
            self._window_slots = torch.zeros(max_tokens, dtype=torch.int64, device=device)
        self.verify_mask: VerifyMask | None = None
        self._mask_indptr = torch.zeros(max_batch + 1, dtype=torch.int64, device=device)
        if draft_tokens:
            entries = max_batch * draft_tokens * (max_context + draft_tokens)
            buffer = torch.ones(entries, dtype=torch.bool, device=device)
            self.verify_mask = VerifyMask(buffer, TreeMaskMode.FULL_MASK, max_batch)

    def bind(self, batch: ForwardBatch) -> HygonMetadata:
        """The part that stays outside the graph: slices for a batch of this size, and its mask.

        Raises:
            InvalidArgumentError: the batch is larger than the buffers.
            UnsupportedError: batches of this mode cannot be captured.
        """
        size, mode = batch.batch_size, batch.forward_mode
        if size > self._seq_lens.shape[0]:
            raise reject(
                "the batch size", size, f"at most {self._seq_lens.shape[0]}, the largest captured one"
            )
        result = HygonMetadata(block_table=self._block_table[:size], seq_lens=self._seq_lens[:size])
        if self._window_block_table is not None and self._window_slots is not None:
            result.window_block_table = self._window_block_table[:size]
            result.window_slots = self._window_slots[: batch.out_cache_loc.shape[0]]
        if mode.is_target_verify() or mode.is_draft_extend_v2():
            result.cu_seqlens_q = self._cu_seqlens_q[: size + 1]
        elif not mode.is_decode_or_idle():
            raise UnsupportedError(
                f"forward mode {mode.name} cannot run in a full graph: use "
                "--cuda-graph-backend-prefill disabled"
            )
        spec_info = batch.spec_info
        if mode.is_target_verify() and spec_info is not None and spec_info.custom_mask is not None:
            result.custom_mask = self._bind_mask(spec_info.custom_mask)
            result.mask_indptr = self._mask_indptr[: size + 1]
        return result

    def fill(self, batch: ForwardBatch, target: HygonMetadata) -> None:
        """The part inside the graph: fixed shapes, no host values, results in the buffers."""
        mode = batch.forward_mode
        size = target.seq_lens.shape[0]
        target.block_table.copy_(self._pools.block_table(batch.req_pool_indices[:size], None))
        tokens = tokens_per_request(batch) if mode.is_target_verify() else 0
        torch.add(batch.seq_lens[:size], tokens, out=target.seq_lens)
        if target.window_block_table is not None and target.window_slots is not None:
            window_table = self._pools.window_block_table(target.block_table)
            window_slots = self._pools.window_slots(batch.out_cache_loc)
            assert window_table is not None
            assert window_slots is not None
            target.window_block_table.copy_(window_table)
            target.window_slots.copy_(window_slots)
        if target.cu_seqlens_q is not None:
            each = tokens if mode.is_target_verify() else batch.spec_info.num_tokens_per_req
            torch.arange(0, (size + 1) * each, each, out=target.cu_seqlens_q)
        if target.mask_indptr is not None:
            torch.cumsum(target.seq_lens.long() * tokens, 0, out=target.mask_indptr[1:])

    def _bind_mask(self, mask: torch.Tensor) -> torch.Tensor:
        """Copies a mask that is not in the buffer already, where the draft stage may have put it."""
        if self.verify_mask is None:
            raise UnsupportedError("a verify batch has a custom mask, but the server has no draft tokens set")
        buffer: torch.Tensor = self.verify_mask.buffer
        if mask.data_ptr() != buffer.data_ptr():
            buffer[: mask.shape[0]].copy_(mask)
        return buffer
