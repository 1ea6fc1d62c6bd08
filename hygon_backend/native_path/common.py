"""What all native calls share: element types by number, strides, scales, streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hygon_backend.torch_path.scales import Scale

Struct = Any
"""A params struct of the extension module, whose fields are known to the module alone."""

ELEMENT_TYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 4,
}
"""Numbers of `ElementType` in csrc/kernels/detail/element_type.h."""


@contextmanager
def call_stream(device: torch.device) -> Iterator[int]:
    """Makes `device` the current one and yields its current stream as the native side takes it."""
    if device.type == "cpu":
        yield 0
        return
    with torch.cuda.device(device):
        yield torch.cuda.current_stream(device).cuda_stream


def set_index(params: Struct, name: str, tensor: torch.Tensor) -> None:
    """Describes an int32 or int64 tensor of sequences, `[S]`, or of sequences and columns."""
    setattr(params, name, tensor.data_ptr())
    setattr(params, f"{name}_wide", tensor.dtype == torch.int64)
    if tensor.dim() == 1:
        setattr(params, f"{name}_stride", tensor.stride(0))
    else:
        setattr(params, f"{name}_seq_stride", tensor.stride(0))
        setattr(params, f"{name}_column_stride", tensor.stride(1))


def set_scale(params: Struct, name: str, scale: Scale, keep: list[torch.Tensor]) -> None:
    """Describes a scale: a number, or a tensor of one element or one per KV head.

    A tensor is read on the device, since reading it here would wait. Tensors made on the way are
    added to `keep`.
    """
    if isinstance(scale, torch.Tensor):
        values = scale.to(torch.float32)
        keep.append(values)
        setattr(params, f"{name}s", values.data_ptr())
        setattr(params, f"{name}s_stride", values.stride(0) if values.numel() > 1 else 0)
    elif scale is not None:
        setattr(params, name, scale)
