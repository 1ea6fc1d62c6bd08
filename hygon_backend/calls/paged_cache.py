"""A paged cache as an argument."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hygon_backend.calls.scale import Scale
from hygon_backend.kv_layout import KVLayout


@dataclass(frozen=True)
class PagedCache:
    """A cache pair with what is needed to read it."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor
    layout: KVLayout
    block_size: int
    k_scale: Scale
    v_scale: Scale
