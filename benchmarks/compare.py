"""Measures implementations side by side: what makes a number one that may be kept."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch

from benchmarks.peers.base import PeerOf, PeerUnavailableError
from benchmarks.results import Row
from benchmarks.timing import Timer

_TOLERANCE = 0.02
"""Of the largest expected value: several times what bfloat16 weights and outputs cost, and under what a
missed partition would. It tells whether all do the same work; that each key counts is the tests' matter."""


class Checked(Protocol):
    """Data with a known answer."""

    @property
    def device(self) -> torch.device:
        """Where it is."""

    def error(self, output: torch.Tensor) -> float:
        """Largest deviation of a result, relative to the largest expected value."""


ProblemT = TypeVar("ProblemT", bound=Checked)


class WrongMeasurementError(Exception):
    """A peer gave a wrong result, or a speed that cannot be."""


class DeviceLostError(Exception):
    """The device answers nothing any more, so no further cell can be measured."""


def measure(
    row: Row,
    problem: ProblemT,
    work: float,
    timer: Timer,
    peers: Sequence[PeerOf[ProblemT]],
    ours: PeerOf[ProblemT] | None,
    fastest: float,
) -> None:
    """Fills in one row with `work` done a second; a peer that fails leaves a reason instead of a value.

    Args:
        row: its `limit` is set.
        problem: what all are given.
        work: bytes or operations of one call.
        timer: of the problem's device.
        peers: those to be measured, in order.
        ours: this project's operator, measured last, or None to leave it out.
        fastest: the largest believable value, as a multiple of the limit.
    """
    row.peers = dict.fromkeys((peer.name for peer in peers), None)
    row.why = dict.fromkeys(("ours", *row.peers), "not reached")
    for peer in peers:
        row.peers[peer.name] = _value(peer, problem, work, timer, row.limit * fastest, row.why)
    if ours is not None:
        row.ours = _value(ours, problem, work, timer, row.limit * fastest, row.why)
    else:
        row.why["ours"] = "left out by --peers-only"


def _value(
    peer: PeerOf[ProblemT],
    problem: ProblemT,
    work: float,
    timer: Timer,
    largest: float,
    why: dict[str, str],
) -> float | None:
    """Work a second, or None with the reason noted in `why`."""
    try:
        run = timer.prepare(peer.prepare(problem))
        # Poisoned, so that a result left over from an earlier run cannot pass for this one.
        run().fill_(float("nan"))
        _check_result(problem, run())
        value = work / timer.seconds(run)
        _check_result(problem, run())
        if value > largest:
            raise WrongMeasurementError(f"{value / largest:.2f} times what can be: not all keys were read")
        del why[peer.name]
        return value
    except PeerUnavailableError as error:
        why[peer.name] = str(error)
        return None
    except Exception as error:  # a peer may fail in any way, and the others are still to be measured
        why[peer.name] = f"error: {_first_line(error)}"
        _check_device(problem.device, peer.name)
        return None


def _check_result(problem: Checked, output: torch.Tensor) -> None:
    error = problem.error(output)
    if not error <= _TOLERANCE:  # so that NaN fails as well
        raise WrongMeasurementError(f"wrong result, off by {error:.3g} of the largest value")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def _check_device(device: torch.device, name: str) -> None:
    """Raises DeviceLostError if the peer's failure took the device's context with it."""
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise DeviceLostError(f"{name} broke the device: {_first_line(error)}") from error


def describe(device: torch.device) -> str:
    """Names the device and what it runs."""
    if device.type == "cuda":
        name, runtime = torch.cuda.get_device_name(device), f"CUDA {torch.version.cuda}"
    else:
        name, runtime = platform.processor() or platform.machine(), f"{torch.get_num_threads()} threads"
    return f"{name}, torch {torch.__version__}, {runtime}"
