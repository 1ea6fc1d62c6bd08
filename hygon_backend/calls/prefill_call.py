"""A prefill call as both implementations take it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import Scale
from hygon_backend.calls.score_rules import ScoreRules


@dataclass(frozen=True)
class PagedTable:
    """Pages `block_table` `[S, max_blocks]` of sequences with `seq_lens` `[S]` keys."""

    block_table: torch.Tensor
    seq_lens: torch.Tensor

    @property
    def num_seqs(self) -> int:
        """Number of sequences."""
        return self.seq_lens.shape[0]


@dataclass(frozen=True)
class RaggedTable:
    """Pages of one key each: sequence `s` has `kv_indices[kv_indptr[s]]` up to `kv_indptr[s + 1]`."""

    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor

    @property
    def num_seqs(self) -> int:
        """Number of sequences."""
        return self.kv_indptr.shape[0] - 1

    def paged(self) -> PagedTable:
        """The same table with padded rows; reads the offsets."""
        seq_lens = self.kv_indptr.diff()
        width = int(seq_lens.max()) if self.num_seqs else 0
        column = torch.arange(width, device=self.kv_indptr.device)
        index = self.kv_indptr[:-1, None] + column
        if self.kv_indices.numel() == 0:
            return PagedTable(self.kv_indices.new_zeros(self.num_seqs, 0), seq_lens)
        # Surplus columns of a short row repeat some entry; nothing looks at them.
        return PagedTable(self.kv_indices[index.clamp(max=self.kv_indices.numel() - 1)], seq_lens)


@dataclass(frozen=True)
class CustomMask:
    """Which of its new tokens' keys each new token sees, in place of the causal rule.

    `mask` is flat, one byte or bool per query and key; sequence `s` has its dense `[q_len, kv_len]` entries
    at `indptr[s]`, of which only the last `q_len` columns are looked at: the prefix is visible to all.
    """

    mask: torch.Tensor
    indptr: torch.Tensor

    def visible(self, seq: int, q_len: int, kv_len: int) -> torch.Tensor:
        """`[q_len, kv_len]` booleans of one sequence; reads its offset."""
        first = int(self.indptr[seq])
        rows = self.mask[first : first + q_len * kv_len].view(q_len, kv_len).bool()
        return rows | (torch.arange(kv_len, device=rows.device) < kv_len - q_len)


@dataclass(frozen=True)
class PrefillCall:
    """Attention of `q` `[T, Hq, D]`, sequence `s` owning rows `cu_seqlens_q[s]` to `cu_seqlens_q[s + 1]`.

    `out` is `[T, Hq, Dv]` and written whole, like `lse`, `[T, Hq]` float32 or None. q is of out's dtype,
    or fp8 and to be multiplied by `q_scale`. `partition_size` is keys per partition of a split call; None
    leaves the choice to the implementation.
    """

    q: torch.Tensor
    cache: PagedCache
    table: PagedTable | RaggedTable
    cu_seqlens_q: torch.Tensor
    rules: ScoreRules
    q_scale: Scale
    custom_mask: CustomMask | None
    out: torch.Tensor
    lse: torch.Tensor | None
    partition_size: int | None
