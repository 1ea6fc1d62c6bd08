"""torch's scaled_dot_product_attention over keys and values that are no longer paged.

An upper bound rather than a rival: the gather that a paged cache would need before each call is done
beforehand and not timed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.peers.base import require_card
from benchmarks.problem import Problem


class TorchSdpa:
    """One of torch's fused backends; torch raises where it cannot serve a shape."""

    def __init__(self, name: str, backend: SDPBackend) -> None:
        self.name = name
        self._backend = backend

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """See `Peer.prepare`."""
        if self._backend is SDPBackend.CUDNN_ATTENTION:
            require_card(problem)
        key, value = problem.gather(slice(None))
        q = problem.q.unsqueeze(2)

        def call() -> torch.Tensor:
            with sdpa_kernel(self._backend):
                out = scaled_dot_product_attention(q, key, value, scale=problem.scale, enable_gqa=True)
            return out.squeeze(2)

        return call
