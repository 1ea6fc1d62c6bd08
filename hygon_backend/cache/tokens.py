"""What callers may pass as tokens or slots."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import torch


class SupportsBuffer(Protocol):
    """An object whose memory can be lent (PEP 688), such as `array('q')` or a NumPy array."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Lends the memory."""


Int64s: TypeAlias = torch.Tensor | Sequence[int] | SupportsBuffer
"""Integers: a one-dimensional int64 or int32 tensor on the CPU, a contiguous buffer of such elements (used
where it lies), or a sequence of int."""


def lendable(integers: Int64s) -> object:
    """Returns what the native module can read: the same, or a tensor's elements as a buffer."""
    if isinstance(integers, torch.Tensor):
        return integers.detach().contiguous().numpy()
    return integers
