"""What every measured implementation offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from benchmarks.problem import Problem


class PeerUnavailableError(Exception):
    """The peer cannot run here at all; the message says why."""


class Peer(Protocol):
    """One implementation of paged decode."""

    @property
    def name(self) -> str:
        """Key of its values in the results."""

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """Does all that an engine does once a step rather than once a layer, and returns the layer's call.

        The call returns `[batch, Hq, D]`, allocates nothing that outlives it, and does not wait for the
        device.

        Raises:
            PeerUnavailableError: it cannot run on this machine.
        """


def require_card(problem: Problem) -> None:
    """Refuses a machine without a card, for peers whose kernels need one."""
    if problem.device.type != "cuda":
        raise PeerUnavailableError("its kernels need a card")
