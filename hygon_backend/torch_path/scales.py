"""fp8 storage: scaling, saturating conversion, and back."""

from __future__ import annotations

import torch

from hygon_backend.calls.scale import FP8_DTYPES, Scale


def per_head_factor(scale: Scale, num_heads: int, device: torch.device) -> torch.Tensor | float | None:
    """Returns a scale in a form that broadcasts over `[..., num_heads, head_size]`, None if it is 1."""
    if scale is None or isinstance(scale, float | int):
        return None if scale is None or scale == 1.0 else float(scale)
    factor = scale.to(device=device, dtype=torch.float32).reshape(-1, 1)
    return factor.expand(num_heads, 1)


def dequantise(data: torch.Tensor, scale: Scale, dtype: torch.dtype) -> torch.Tensor:
    """Converts stored elements `[..., H, D]` to `dtype` and applies their scale."""
    factor = per_head_factor(scale, data.shape[-2], data.device)
    if factor is None:
        return data.to(dtype)
    return (data.to(torch.float32) * factor).to(dtype)


def quantise(data: torch.Tensor, scale: Scale, dtype: torch.dtype) -> torch.Tensor:
    """Converts `[..., H, D]` to the cache's `dtype`, divided by its scale.

    fp8 saturates: torch's own conversion turns an e4m3 overflow into NaN and an e5m2 overflow into
    infinity, and one such element would spoil every later token. NaN passes through `clamp`.
    """
    factor = per_head_factor(scale, data.shape[-2], data.device)
    if factor is not None:
        data = data.to(torch.float32) / factor
    if dtype in FP8_DTYPES:
        limit = torch.finfo(dtype).max
        data = data.to(torch.float32).clamp(-limit, limit)
    return data.to(dtype)
