"""Describes keys or values, packed and paged, to the kernels that move them."""

from __future__ import annotations

import torch

from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import KVLayout, Part
from hygon_backend.native_path.common import Struct, cache_strides, set_scale


def set_part(
    part_params: Struct,
    part: Part,
    tokens: torch.Tensor,
    cache: torch.Tensor,
    layout: KVLayout,
    scale: Scale,
    keep: list[torch.Tensor],
) -> None:
    """Fills in a `KvPart`.

    Args:
        part_params: the struct.
        part: keys or values.
        tokens: `[T, Hkv, D]`, any strides.
        cache: the paged cache, any strides.
        layout: the cache's layout.
        scale: number, tensor or None.
        keep: gets the tensors that must live until the call is enqueued.
    """
    part_params.tokens = tokens.data_ptr()
    part_params.token_stride, part_params.head_stride, part_params.dim_stride = tokens.stride()
    part_params.head_size = tokens.shape[2]

    strides = cache_strides(cache, layout, part)
    part_params.cache = cache.data_ptr()
    part_params.block_stride = strides.block
    part_params.cache_token_stride = strides.token
    part_params.cache_head_stride = strides.head
    part_params.cache_dim_stride = strides.dim
    if strides.pack:
        part_params.pack_stride = strides.pack_stride
        part_params.pack = strides.pack
    set_scale(part_params, "scale", scale, keep)
