"""Tensors as bit patterns: exact copies and comparisons that NaN and fp8 types do not disturb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Views a tensor, whatever its strides, as integers of the same width."""
    return tensor.view(_INTEGERS[tensor.itemsize])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tells whether two tensors have one shape, one dtype and the same bits, NaN payloads included."""
    return a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole allocation behind a tensor, on the CPU: what lies beside a strided view counts too."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage()).cpu()


@contextmanager
def unchanged(**tensors: torch.Tensor) -> Iterator[None]:
    """Asserts that the body leaves the whole storage of every tensor as it was.

    The storage rather than the view: a stray write beside a strided cache counts as well.
    """
    before = {name: storage_bytes(tensor).clone() for name, tensor in tensors.items()}
    yield
    for name, tensor in tensors.items():
        assert torch.equal(storage_bytes(tensor), before[name]), f"{name} was changed"
