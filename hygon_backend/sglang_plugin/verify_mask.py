"""Tree masks of speculative verification, from SGLang's two forms to the operators' one.

A verify batch has `n` draft tokens for each request, behind its `seq_lens` cached tokens. SGLang says
which draft tokens see which either as FULL_MASK, one row of `seq_lens + n` entries per draft token
(the cached part all True), or as QLEN_ONLY, one row of `n` entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hygon_backend.errors import UnsupportedError, reject

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch


def tokens_per_request(batch: ForwardBatch) -> int:
    """Draft tokens of each request in a verify batch.

    Raises:
        UnsupportedError: requests have different numbers of them.
    """
    tokens = int(batch.spec_info.draft_token_num)
    if batch.input_ids.shape[0] != batch.batch_size * tokens:
        raise UnsupportedError(
            f"a verify batch has {batch.input_ids.shape[0]} tokens for {batch.batch_size} requests, but must "
            f"have {tokens} for each: ragged verification is not supported"
        )
    return tokens


def uniform_offsets(like: torch.Tensor, tokens: int) -> torch.Tensor:
    """Query offsets `[num_seqs + 1]` int32 where each of `like`'s sequences has `tokens` queries."""
    return torch.arange(like.shape[0] + 1, dtype=torch.int32, device=like.device) * tokens


def dense_offsets(seq_lens: torch.Tensor, tokens: int) -> torch.Tensor:
    """Offsets `[num_seqs + 1]` int64 of each sequence's `[tokens, seq_lens + tokens]` mask."""
    sums = torch.zeros(seq_lens.shape[0] + 1, dtype=torch.int64, device=seq_lens.device)
    torch.cumsum((seq_lens + tokens) * tokens, 0, dtype=torch.int64, out=sums[1:])
    return sums


def to_dense(mask: torch.Tensor, seq_lens: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Converts a batch's mask.

    Args:
        mask: flat, bool or uint8, in either form; FULL_MASK may be followed by unused entries.
        seq_lens: `[num_seqs]` cached tokens, at least one each.
        tokens: draft tokens of each request.

    Returns:
        the flat dense mask and its offsets, as `ops.prefix_prefill` takes them.

    Raises:
        InvalidArgumentError: the mask has the wrong number of dimensions or too few entries.
    """
    if mask.dim() != 1:
        raise reject("the shape of custom_mask", list(mask.shape), "[any]")
    indptr = dense_offsets(seq_lens, tokens)
    short = seq_lens.shape[0] * tokens * tokens
    if mask.shape[0] != short:
        return mask, indptr
    return _widen(mask.view(-1, tokens, tokens), seq_lens, indptr), indptr


def _widen(mask: torch.Tensor, seq_lens: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Puts `[num_seqs, n, n]` masks behind all-visible cached tokens; reads the last offset.

    SGLang uses the short form on the CPU only, where reading it waits for nothing.
    """
    tokens = mask.shape[1]
    rows = torch.arange(tokens, device=mask.device)
    width = (seq_lens + tokens)[:, None, None]
    position = indptr[:-1, None, None] + rows[:, None] * width + seq_lens[:, None, None] + rows
    dense = mask.new_ones(int(indptr[-1]))
    dense[position.flatten()] = mask.flatten()
    return dense
