"""The data of one cell, the same for every peer: queries and a shuffled paged KV cache."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import torch

from benchmarks.cases import HEAD_SIZE, Case

DTYPE = torch.bfloat16


class Pool:
    """One random key pool and one value pool, large enough for the largest cell and used by all.

    Every (heads, page) shape is a view of the same two buffers: filling tens of gigabytes once a cell
    would take longer than measuring.
    """

    def __init__(self, cases: Iterable[Case], device: torch.device) -> None:
        elements = max(case.pool_elements for case in cases)
        self.device = device
        self._buffers = tuple(torch.randn(elements, dtype=DTYPE, device=device) for _ in range(2))

    def caches(self, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
        """The pools as `[pages, page, Hkv, D]`; with more pages than the case needs, if it is small."""
        page_elements = case.page * case.heads_kv * HEAD_SIZE
        key, value = (
            buffer[: buffer.numel() // page_elements * page_elements].view(
                -1, case.page, case.heads_kv, HEAD_SIZE
            )
            for buffer in self._buffers
        )
        return key, value


class Problem:
    """Inputs of one cell; `block_table` picks pages from all over the pool, none twice."""

    def __init__(self, case: Case, pool: Pool) -> None:
        self.case = case
        self.device = pool.device
        self.k_cache, self.v_cache = pool.caches(case)
        order = torch.randperm(self.k_cache.shape[0], device=self.device, dtype=torch.int32)
        pages = case.batch * case.pages_per_sequence
        self.block_table = order[:pages].view(case.batch, case.pages_per_sequence)
        self.seq_lens = torch.full((case.batch,), case.length, dtype=torch.int32, device=self.device)
        self.q = torch.randn(case.batch, case.heads_q, HEAD_SIZE, dtype=DTYPE, device=self.device)
        self.scale = 1 / math.sqrt(HEAD_SIZE)

    def gather(self, sequences: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of some sequences without paging, `[B, Hkv, L, D]` dense."""
        rows = self.block_table[sequences]
        key, value = (
            cache[rows].flatten(1, 2)[:, : self.case.length].transpose(1, 2).contiguous()
            for cache in (self.k_cache, self.v_cache)
        )
        return key, value

    @functools.cached_property
    def sample(self) -> list[int]:
        """The sequences whose results are checked: first, middle and last."""
        return sorted({0, self.case.batch // 2, self.case.batch - 1})

    @functools.cached_property
    def expected(self) -> torch.Tensor:
        """Float32 attention of the sampled sequences, `[samples, Hq, D]`."""
        rows = []
        for index in self.sample:
            key, value = (part[0].float() for part in self.gather(slice(index, index + 1)))
            group = self.case.heads_q // self.case.heads_kv
            q = self.q[index].float().view(self.case.heads_kv, group, HEAD_SIZE)
            weights = torch.softmax(q @ key.transpose(1, 2) * self.scale, dim=-1)
            rows.append((weights @ value).view(self.case.heads_q, HEAD_SIZE))
        return torch.stack(rows)

    def error(self, output: torch.Tensor) -> float:
        """Largest deviation of the sampled outputs, relative to the largest expected value."""
        got = output[self.sample].float()
        return float((got - self.expected).abs().max() / self.expected.abs().max())
