"""What one attention layer asks for, in the operators' terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hygon_backend.errors import UnsupportedError
from hygon_backend.sglang_plugin import support

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention


@dataclass(frozen=True)
class LayerRules:
    """Score rules of a layer; the names are those of the operators' arguments."""

    scale: float
    causal: bool
    window: int | None
    softcap: float | None


def rules_of(layer: RadixAttention) -> LayerRules:
    """Reads a layer's rules.

    Raises:
        UnsupportedError: the layer asks for something that the operators do not do.
    """
    sentence = support.explain_layer(layer)
    if sentence is not None:
        raise UnsupportedError(sentence)
    # SGLang counts the keys to the left of the query, the operators its own as well.
    window = layer.sliding_window_size + 1 if layer.sliding_window_size > -1 else None
    return LayerRules(
        scale=float(layer.scaling),
        causal=not support.is_encoder(layer),
        window=window,
        softcap=layer.logit_cap or None,
    )
