"""Calls the native cache write."""

from __future__ import annotations

from types import ModuleType

import torch

from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import KVLayout
from hygon_backend.native_path.common import ELEMENT_TYPES, call_stream, set_index
from hygon_backend.native_path.kv_part import set_part


def supports(k: torch.Tensor, k_cache: torch.Tensor) -> bool:
    """Whether a kernel exists for these element types: all that the operator takes."""
    return k.dtype in ELEMENT_TYPES and k.itemsize > 1 and k_cache.dtype in ELEMENT_TYPES


def run(
    module: ModuleType,
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    layout: KVLayout,
    block_size: int,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Enqueues the write of all tokens whose slot is not negative; the arguments are the operator's."""
    params = module.WriteKvParams()
    keep: list[torch.Tensor] = []
    set_part(params.k, "key", k, k_cache, layout, k_scale, keep)
    set_part(params.v, "value", v, v_cache, layout, v_scale, keep)
    set_index(params, "slots", slot_mapping)
    params.token_type = ELEMENT_TYPES[k.dtype]
    params.cache_type = ELEMENT_TYPES[k_cache.dtype]
    params.num_tokens, params.num_heads, _ = k.shape
    params.block_size = block_size
    with call_stream(k.device) as stream:
        module.write_kv(params, stream)
