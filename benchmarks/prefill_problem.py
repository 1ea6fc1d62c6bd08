"""The data of one prefill cell, the same for every peer."""

from __future__ import annotations

import functools
import math

import torch

from benchmarks.cases import HEAD_SIZE
from benchmarks.prefill_cases import PrefillCase
from benchmarks.problem import DTYPE

_SPARE_PAGES = 3


class PrefillProblem:
    """New tokens of one sequence over a shuffled paged cache that holds them already."""

    def __init__(self, case: PrefillCase, device: torch.device) -> None:
        self.case = case
        self.device = device
        pages = case.num_pages + _SPARE_PAGES
        shape = (pages, case.page, case.heads_kv, HEAD_SIZE)
        self.k_cache, self.v_cache = (torch.randn(shape, dtype=DTYPE, device=device) for _ in range(2))
        order = torch.randperm(pages, device=device, dtype=torch.int32)
        self.block_table = order[None, : case.num_pages]
        self.seq_lens = torch.tensor([case.kv_len], dtype=torch.int32, device=device)
        self.cu_seqlens_q = torch.tensor([0, case.q_len], dtype=torch.int32, device=device)
        self.q = torch.randn(case.q_len, case.heads_q, HEAD_SIZE, dtype=DTYPE, device=device)
        self.scale = 1 / math.sqrt(HEAD_SIZE)

    @functools.cached_property
    def dense(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values without paging, `[kv_len, Hkv, D]`."""
        key, value = (
            cache[self.block_table[0]].flatten(0, 1)[: self.case.kv_len].contiguous()
            for cache in (self.k_cache, self.v_cache)
        )
        return key, value

    @functools.cached_property
    def slots(self) -> torch.Tensor:
        """Pool slot of every key."""
        offsets = torch.arange(self.case.page, device=self.device)
        slots = self.block_table[0].long()[:, None] * self.case.page + offsets
        return slots.flatten()[: self.case.kv_len]

    @functools.cached_property
    def sample(self) -> list[int]:
        """The tokens whose results are checked."""
        last = self.case.q_len - 1
        return sorted({0, 1, last // 3, last // 2, last - 1, last} & set(range(last + 1)))

    @functools.cached_property
    def expected(self) -> torch.Tensor:
        """Float32 attention of the sampled tokens, `[samples, Hq, D]`."""
        key, value = (part.float().transpose(0, 1) for part in self.dense)
        rows = []
        for token in self.sample:
            seen = self.case.kv_len - self.case.q_len + token + 1
            q = self.q[token].float().view(self.case.heads_kv, -1, HEAD_SIZE)
            weights = torch.softmax(q @ key[:, :seen].transpose(1, 2) * self.scale, dim=-1)
            rows.append((weights @ value[:, :seen]).flatten(0, 1))
        return torch.stack(rows)

    def error(self, output: torch.Tensor) -> float:
        """Largest deviation of the outputs `[q_len, Hq, D]`, relative to the largest expected value."""
        got = output[self.sample].float()
        return float((got - self.expected).abs().max() / self.expected.abs().max())
