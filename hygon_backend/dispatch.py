"""Chooses what serves an operator call, compiled kernels or PyTorch, and counts what did."""

from __future__ import annotations

from types import ModuleType

import torch

from hygon_backend import counters, native


def choose(device: torch.device, supported: bool) -> ModuleType | None:
    """Returns the module to call, or None for PyTorch.

    Args:
        device: where the operator's tensors are.
        supported: whether a kernel exists for their types.

    Raises:
        ImportError: see `hygon_backend.native.module_for`.
    """
    module = native.module_for(device)
    return module if supported else None


def count(operator: str, device: torch.device, module: ModuleType | None) -> None:
    """Counts a call that `module` served, or PyTorch where it is None."""
    path = "torch" if module is None else "emulated" if device.type == "cpu" else "native"
    counters.record(operator, path)
