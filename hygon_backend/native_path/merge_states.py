"""Calls the native merge of two attention results."""

from __future__ import annotations

from types import ModuleType

import torch

from hygon_backend.native_path.common import ELEMENT_TYPES, Struct, call_stream


def supports(o_a: torch.Tensor) -> bool:
    """Whether a kernel exists for this element type: all that the operator takes."""
    return o_a.dtype in ELEMENT_TYPES and o_a.itemsize > 1


def run(
    module: ModuleType, o_a: torch.Tensor, lse_a: torch.Tensor, o_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Enqueues the merge; arguments and results are the operator's."""
    out = torch.empty(o_a.shape, dtype=o_a.dtype, device=o_a.device)
    lse = torch.empty(lse_a.shape, dtype=torch.float32, device=o_a.device)
    params = module.MergeStatesParams()
    _set_state(params.a, o_a, lse_a)
    _set_state(params.b, o_b, lse_b)
    _set_state(params.merged, out, lse)
    params.type = ELEMENT_TYPES[o_a.dtype]
    params.num_tokens, params.num_heads, params.head_size = o_a.shape
    with call_stream(o_a.device) as stream:
        module.merge_states(params, stream)
    return out, lse


def _set_state(state: Struct, out: torch.Tensor, lse: torch.Tensor) -> None:
    state.out = out.data_ptr()
    state.out_token_stride, state.out_head_stride, state.out_dim_stride = out.stride()
    state.lse = lse.data_ptr()
    state.lse_token_stride, state.lse_head_stride = lse.stride()
