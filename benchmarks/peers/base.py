"""What every measured implementation offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

from benchmarks.problem import Problem


class PeerUnavailableError(Exception):
    """The peer cannot run here at all; the message says why."""


ProblemT_contra = TypeVar("ProblemT_contra", contravariant=True)


class PeerOf(Protocol[ProblemT_contra]):
    """One implementation of an operator."""

    @property
    def name(self) -> str:
        """Key of its values in the results."""

    def prepare(self, problem: ProblemT_contra) -> Callable[[], torch.Tensor]:
        """Does all that an engine does once a step rather than once a layer, and returns the layer's call.

        The call returns a row for every query, allocates nothing that outlives it, and does not wait for the
        device.

        Raises:
            PeerUnavailableError: it cannot run on this machine.
        """


Peer = PeerOf[Problem]
"""One of paged decode."""


class OnDevice(Protocol):
    """Anything that lies on a device."""

    @property
    def device(self) -> torch.device:
        """Where it is."""


def require_card(problem: OnDevice) -> None:
    """Refuses a machine without a card, for peers whose kernels need one."""
    if problem.device.type != "cuda":
        raise PeerUnavailableError("its kernels need a card")
