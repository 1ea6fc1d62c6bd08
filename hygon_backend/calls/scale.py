"""Scales of quantised elements."""

from __future__ import annotations

import torch

Scale = float | torch.Tensor | None
"""Factor of stored elements: a number, a tensor of one or of one a head, or None for 1."""

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
"""The types whose elements have a scale."""
