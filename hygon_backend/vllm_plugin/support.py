"""What the backend can run, and the sentence that refuses what it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from vllm.v1.attention.backend import AttentionType

from hygon_backend.kv_layout import MAX_BLOCK_SIZE
from hygon_backend.validation import MAX_HEAD_SIZE
from hygon_backend.vllm_plugin.registration import BACKEND_NAME

if TYPE_CHECKING:
    from vllm.v1.attention.selector import AttentionSelectorConfig

DTYPES = [torch.float16, torch.bfloat16, torch.float32]

KV_CACHE_DTYPES = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]

BLOCK_SIZES = list(range(1, MAX_BLOCK_SIZE + 1))
"""Page sizes in tokens: all that the operators take, so that vLLM never has to split a block."""

PREFERRED_BLOCK_SIZE = 64
"""Page size when the user names none: one page row per lane of a 64-wide wave."""

_UNSUPPORTED_FLAGS = {
    "use_mla": "multi-head latent attention",
    "use_sparse": "sparse attention",
    "use_mm_prefix": "bidirectional multimodal prefixes",
    "use_per_head_quant_scales": "per-head scales from the checkpoint",
    "use_non_causal": "non-causal attention",
    "use_batch_invariant": "batch-invariant mode",
    "use_pcp": "prefill context parallelism",
    "use_adaptive_verification": "adaptive verification",
    "use_kv_connector": "a KV connector",
    "use_dcp": "decode context parallelism",
    "use_rswa": "reference sliding-window attention",
}


def explain(config: AttentionSelectorConfig) -> str | None:
    """Returns the sentence that refuses `config`, or None when the backend can run it."""
    if config.head_size > MAX_HEAD_SIZE:
        return f"head_size is {config.head_size}, but {BACKEND_NAME} supports at most {MAX_HEAD_SIZE}"
    if config.dtype not in DTYPES:
        return f"dtype is {config.dtype}, but {BACKEND_NAME} supports {', '.join(map(str, DTYPES))}"
    if config.kv_cache_dtype is not None and config.kv_cache_dtype not in KV_CACHE_DTYPES:
        return (
            f"kv_cache_dtype is {config.kv_cache_dtype}, but {BACKEND_NAME} supports "
            f"{', '.join(KV_CACHE_DTYPES)}"
        )
    if config.block_size is not None and config.block_size > MAX_BLOCK_SIZE:
        return f"block_size is {config.block_size}, but {BACKEND_NAME} supports 1 to {MAX_BLOCK_SIZE} tokens"
    sentence = explain_attention_type(config.attn_type)
    if sentence is not None:
        return sentence
    for flag, meaning in _UNSUPPORTED_FLAGS.items():
        if getattr(config, flag):
            return f"the model or configuration asks for {meaning}, which {BACKEND_NAME} does not support"
    return None


def explain_attention_type(attn_type: str) -> str | None:
    """Returns the sentence that refuses an attention type, or None for decoder attention."""
    if attn_type == AttentionType.DECODER:
        return None
    name = AttentionType(attn_type).value
    return f"attention type is {name}, but {BACKEND_NAME} supports decoder attention only"
