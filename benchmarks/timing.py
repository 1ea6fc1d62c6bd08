"""Times a call on a device: graph replays between events on a card, wall clock on a CPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Call = Callable[[], torch.Tensor]
"""Does the work to be timed and returns the result."""

_MIN_REPEATS = 10
_MAX_REPEATS = 30
_BUDGET_S = 0.1
"""Repeats go on past the minimum while they fit into this much time."""


@dataclass(frozen=True)
class _Captured:
    """A call as a graph."""

    graph: torch.cuda.CUDAGraph
    output: torch.Tensor
    call: Call
    """Kept because the graph reads the tensors that the call holds by their addresses."""

    def __call__(self) -> torch.Tensor:
        self.graph.replay()
        return self.output


class Timer:
    """Measures on one device, with cold caches before every repetition."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._on_card = device.type == "cuda"
        # Several times the last-level cache of any card or desktop processor. It is read, not written: dirty
        # lines would be written back during the measured call, at its expense.
        self._evictor = torch.ones((256 if self._on_card else 64) << 20, dtype=torch.int8, device=device)

    def prepare(self, call: Call) -> Call:
        """Warms a call up, compilation included, and on a card captures it: no launch gaps are timed.

        What comes back does the same work, on a card without waiting for it and always into the same tensor.
        """
        if not self._on_card:
            call()
            return call
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = call()
        return _Captured(graph, output, call)

    def seconds(self, run: Call) -> float:
        """Median time of one run."""
        first = self._batch(run, 2)[1]
        repeats = min(max(int(_BUDGET_S / first), _MIN_REPEATS), _MAX_REPEATS)
        return statistics.median(self._batch(run, repeats))

    def copy_bandwidth(self) -> float:
        """Bytes read and written a second by a large copy on the device."""
        size = (4 << 30) if self._on_card else (64 << 20)
        source = torch.ones(size, dtype=torch.int8, device=self.device)
        target = torch.empty_like(source)
        # Not captured: a graph's copy node takes the copy engine, which is slower than the copy kernel.
        return 2 * size / self.seconds(lambda: target.copy_(source))

    def _batch(self, run: Call, repeats: int) -> list[float]:
        return self._events(run, repeats) if self._on_card else self._clock(run, repeats)

    def _evict(self) -> None:
        # On a card this also keeps the device busy while the host enqueues the call, so that the time
        # between the two events holds no launch latency.
        self._evictor.max()

    def _events(self, run: Call, repeats: int) -> list[float]:
        pairs = []
        for _ in range(repeats):
            start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._evict()
            start.record()
            run()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    def _clock(self, run: Call, repeats: int) -> list[float]:
        times = []
        for _ in range(repeats):
            self._evict()
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return times
