"""Describes keys or values, packed and paged, to the kernels that move them."""

from __future__ import annotations

import torch

from hygon_backend.kv_layout import KVLayout, Part, token_major_view
from hygon_backend.native_path.common import Struct, set_scale
from hygon_backend.torch_path.scales import Scale


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

    view = token_major_view(cache, layout, part)
    part_params.cache = view.data_ptr()
    block, token, head, *dims = view.stride()
    part_params.block_stride = block
    part_params.cache_token_stride = token
    part_params.cache_head_stride = head
    part_params.cache_dim_stride = dims[-1]
    if len(dims) == 2:
        part_params.pack_stride = dims[0]
        part_params.pack = view.shape[4]
    set_scale(part_params, "scale", scale, keep)
