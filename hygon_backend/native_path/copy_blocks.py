"""Calls the native page copy, which moves bytes and so takes any element type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

import torch

from hygon_backend.native_path.common import call_stream

MAX_PAGE_AXES = 6
"""Axes of dense rows that the kernel can walk (`kMaxPageAxes` in csrc/kernels/kv_cache.h)."""


@dataclass(frozen=True)
class PageShape:
    """A page as rows of dense bytes.

    Attributes:
        row_bytes: bytes of a row.
        axes: (size, stride in bytes) of each axis along which rows lie; none if the page is dense.
    """

    row_bytes: int
    axes: tuple[tuple[int, int], ...]


def page_shape(cache: torch.Tensor) -> PageShape:
    """Describes the pages of `cache`, whose first axis is the page, by as few axes as possible."""
    return _page_shape(cache.shape[1:], cache.stride()[1:], cache.itemsize)


@lru_cache  # the layers of a model share one shape, call after call
def _page_shape(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> PageShape:
    axes = [
        (size, stride * itemsize)
        for size, stride in zip(sizes, strides, strict=True)
        # An axis of stride 0 shows the same bytes again.
        if size != 1 and (stride != 0 or size == 0)
    ]
    axes.sort(key=lambda axis: axis[1])
    row_bytes = itemsize
    while axes and axes[0][1] == row_bytes:
        row_bytes *= axes.pop(0)[0]
    merged: list[tuple[int, int]] = []
    for size, stride in axes:
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return PageShape(row_bytes, tuple(reversed(merged)))


def supports(caches: list[torch.Tensor]) -> bool:
    """Whether the kernel can walk the pages of all caches."""
    return all(len(page_shape(cache).axes) <= MAX_PAGE_AXES for cache in caches)


def run(module: ModuleType, caches: list[torch.Tensor], block_mapping: torch.Tensor) -> None:
    """Enqueues the copies, one launch a cache; gaps between rows and pages are not touched.

    Args:
        module: the extension module.
        caches: pools, page axis first, any strides.
        block_mapping: `[n, 2]` int32 or int64 rows of (source, destination).
    """
    params = module.CopyBlocksParams()
    params.pairs = block_mapping.data_ptr()
    params.pairs_wide = block_mapping.dtype == torch.int64
    params.pairs_row_stride, params.pairs_column_stride = block_mapping.stride()
    params.num_pairs = block_mapping.shape[0]
    with call_stream(block_mapping.device) as stream:
        for cache in caches:
            if cache.numel() == 0:
                continue
            shape = page_shape(cache)
            params.cache = cache.data_ptr()
            params.block_stride_bytes = cache.stride(0) * cache.itemsize
            params.row_bytes = shape.row_bytes
            module.set_page_axes(params, shape.axes)
            module.copy_blocks(params, stream)
