"""This project's operator."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.problem import Problem
from hygon_backend import ops


class Ours:
    """`hygon_backend.ops.paged_decode` with its own choice of partition size."""

    name = "ours"

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """See `Peer.prepare`."""
        out = torch.empty_like(problem.q)

        def call() -> torch.Tensor:
            ops.paged_decode(
                problem.q,
                problem.k_cache,
                problem.v_cache,
                problem.block_table,
                problem.seq_lens,
                scale=problem.scale,
                out=out,
            )
            return out

        return call
