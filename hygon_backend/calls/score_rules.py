"""The score modifiers as an argument."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ScoreRules:
    """How a logit is made from a dot product; see `hygon_backend.reference` for the definitions.

    `sinks` and `alibi_slopes` are `[Hq]` tensors or None, `softcap` is None where there is none.
    """

    scale: float
    causal: bool
    window: int | None
    softcap: float | None
    sinks: torch.Tensor | None
    alibi_slopes: torch.Tensor | None

    @property
    def fused_kernel_suffices(self) -> bool:
        """Whether torch's fused attention can apply these rules (it knows masks and a scale only)."""
        return self.softcap is None and self.sinks is None and self.alibi_slopes is None
