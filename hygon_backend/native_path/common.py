"""What all native calls share: element types by number, strides, scales, streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import KVLayout, Part, token_major_view

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

LARGEST_PARTITION = 1 << 30
"""A partition size past any length means one partition; kernels count tokens in 32 bits."""


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


@dataclass(frozen=True)
class CacheStrides:
    """Where the elements of a paged cache lie, whatever its layout; strides count elements.

    Element (block, token, head, dim) lies at `block * self.block + token * self.token + head * self.head
    + dim // pack * pack_stride + dim % pack * self.dim`. `pack` is 0 where dims are not interleaved.
    """

    block: int
    token: int
    head: int
    dim: int
    pack_stride: int = 0
    pack: int = 0


def cache_strides(cache: torch.Tensor, layout: KVLayout, part: Part) -> CacheStrides:
    """Reads the strides off a key or value cache."""
    view = token_major_view(cache, layout, part)
    block, token, head, *dims = view.stride()
    if len(dims) == 1:
        return CacheStrides(block, token, head, dims[0])
    return CacheStrides(block, token, head, dims[1], dims[0], view.shape[4])


def set_scale(
    params: Struct, name: str, scale: Scale, keep: list[torch.Tensor], *, per_head: bool = True
) -> None:
    """Describes a scale: a number, or a tensor of one element or, unless forbidden, one per KV head.

    A tensor is read on the device, since reading it here would wait. Tensors made on the way are
    added to `keep`.
    """
    if isinstance(scale, torch.Tensor):
        values = scale.to(torch.float32)
        keep.append(values)
        setattr(params, f"{name}s", values.data_ptr())
        if per_head:
            setattr(params, f"{name}s_stride", values.stride(0) if values.numel() > 1 else 0)
    elif scale is not None:
        setattr(params, name, scale)
