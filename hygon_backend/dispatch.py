"""Chooses what serves an operator call, compiled kernels or PyTorch, and counts the choice."""

from __future__ import annotations

from types import ModuleType

import torch

from hygon_backend import counters, native


def choose(operator: str, device: torch.device, supported: bool) -> ModuleType | None:
    """Returns the module to call, or None for PyTorch.

    Args:
        operator: the operator's name.
        device: where its tensors are.
        supported: whether a kernel exists for their types.

    Raises:
        ImportError: see `hygon_backend.native.module_for`.
    """
    module = native.module_for(device)
    if module is None or not supported:
        counters.record(operator, "torch")
        return None
    counters.record(operator, "emulated" if device.type == "cpu" else "native")
    return module
