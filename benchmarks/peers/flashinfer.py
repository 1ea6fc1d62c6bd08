"""FlashInfer's batch decode over the paged cache, layout NHD, planned once a step."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.cases import HEAD_SIZE
from benchmarks.peers.base import require_card
from benchmarks.problem import DTYPE, Problem


class FlashInfer:
    """Its CUDA-core kernel, which knows few GQA ratios, or its tensor-core kernel."""

    def __init__(self, name: str, use_tensor_cores: bool) -> None:
        self.name = name
        self._use_tensor_cores = use_tensor_cores

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """See `Peer.prepare`."""
        require_card(problem)
        case, q = problem.case, problem.q
        wrapper = self._wrapper
        wrapper.plan(
            torch.arange(case.batch + 1, dtype=torch.int32) * case.pages_per_sequence,
            problem.block_table.flatten(),
            torch.full((case.batch,), (case.length - 1) % case.page + 1, dtype=torch.int32),
            case.heads_q,
            case.heads_kv,
            HEAD_SIZE,
            case.page,
            q_data_type=DTYPE,
            sm_scale=problem.scale,
        )
        out = torch.empty_like(q)

        def call() -> torch.Tensor:
            wrapper.run(q, (problem.k_cache, problem.v_cache), out=out)
            return out

        return call

    @functools.cached_property
    def _wrapper(self) -> Any:  # noqa: ANN401 - a class of an optional package
        module = importlib.import_module("flashinfer")
        # Partial results of the largest cell need more than the 128 MB that its documentation recommends.
        workspace = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
        return module.BatchDecodeWithPagedKVCacheWrapper(
            workspace, "NHD", use_tensor_cores=self._use_tensor_cores
        )
