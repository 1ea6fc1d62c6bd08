"""What the backend can run, and the sentence that refuses what it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from hygon_backend.kv_layout import MAX_BLOCK_SIZE
from hygon_backend.sglang_plugin.options import HND_REFUSAL, explain_page_size
from hygon_backend.sglang_plugin.registration import BACKEND_NAME
from hygon_backend.validation import CACHE_DTYPES, MAX_HEAD_SIZE, QUERY_DTYPES

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.mem_cache.memory_pool import KVCache
    from sglang.srt.model_executor.model_runner import ModelRunner

FORWARD_OPTIONS = ("sinks",)
"""Keyword arguments of a layer's call that the operators know."""


def explain_runner(runner: ModelRunner) -> str | None:
    """Returns the sentence that refuses a model runner, or None when the backend can serve it."""
    if runner.use_mla_backend:
        return f"the model uses multi-head latent attention (MLA), which '{BACKEND_NAME}' does not support"
    if runner.model_config.is_encoder_decoder:
        return f"the model has cross-attention layers, which '{BACKEND_NAME}' does not support"
    if runner.dtype not in QUERY_DTYPES:
        return f"dtype is {runner.dtype}, but '{BACKEND_NAME}' supports {_names(QUERY_DTYPES)}"
    if not 1 <= runner.page_size <= MAX_BLOCK_SIZE:
        return explain_page_size(runner.page_size)
    if runner.kv_index_translator is not None and runner.kv_index_translator.is_translating:
        return f"the unified memory pool moves pages around, which '{BACKEND_NAME}' does not follow"
    return explain_pool(runner.token_to_kv_pool, runner.page_size)


def explain_pool(pool: KVCache, page_size: int) -> str | None:
    """Returns the sentence that refuses a KV pool, or None when its pages can be read in place."""
    if isinstance(pool, SWAKVPool):
        parts = (pool.full_kv_pool, pool.swa_kv_pool)
        return next(filter(None, (explain_pool(part, page_size) for part in parts)), None)
    if getattr(pool, "use_hnd", False):
        return HND_REFUSAL
    if type(pool) is not MHATokenToKVPool:
        return (
            f"the KV cache is a {type(pool).__name__}, but '{BACKEND_NAME}' reads an MHATokenToKVPool: use a "
            "plain decoder model and a --kv-cache-dtype of auto, bf16, fp8_e4m3 or fp8_e5m2"
        )
    if pool.kv_cache_layout != "nhd":
        return f"the KV cache layout is {pool.kv_cache_layout}, but '{BACKEND_NAME}' reads nhd (bshd pages)"
    if pool.is_quantized_kv_cache or pool.dtype not in CACHE_DTYPES:
        return f"the KV cache holds {pool.dtype}, but '{BACKEND_NAME}' supports {_names(CACHE_DTYPES)}"
    for name, size in (("head_dim", pool.head_dim), ("v_head_dim", pool.v_head_dim)):
        if size > MAX_HEAD_SIZE:
            return f"{name} is {size}, but '{BACKEND_NAME}' supports at most {MAX_HEAD_SIZE}"
    if (pool.size + pool.page_size) % page_size:
        return f"the KV pool has {pool.size} tokens, but needs a multiple of the page size, {page_size}"
    return None


def explain_layer(layer: RadixAttention) -> str | None:
    """Returns the sentence that refuses a layer, or None when the operators can do it."""
    name = f"layer {layer.layer_id}"
    if layer.is_cross_attention:
        return f"{name} is a cross-attention layer, which '{BACKEND_NAME}' does not support"
    if layer.attn_type not in (AttentionType.DECODER, AttentionType.ENCODER_ONLY):
        return (
            f"{name} has the attention type {layer.attn_type.value}, but '{BACKEND_NAME}' supports "
            "decoder and encoder_only"
        )
    if is_encoder(layer) and layer.sliding_window_size > -1:
        return f"{name} is an encoder layer with a sliding window, which '{BACKEND_NAME}' does not support"
    if layer.pos_encoding_mode != "NONE":
        return f"{name} has pos_encoding_mode {layer.pos_encoding_mode}, but '{BACKEND_NAME}' supports NONE"
    if layer.logit_cap and layer.logit_capping_method != "tanh":
        method = layer.logit_capping_method
        return f"{name} has logit_capping_method {method}, but '{BACKEND_NAME}' supports tanh"
    if layer.xai_temperature_len > 0:
        return f"{name} scales by temperature length, which '{BACKEND_NAME}' does not support"
    if layer.use_irope:
        return f"{name} attends in chunks (iRoPE), which '{BACKEND_NAME}' does not support"
    return None


def draft_tokens(runner: ModelRunner) -> int:
    """Draft tokens of each request that this runner verifies; 0 without speculation and in a draft."""
    if runner.is_draft_worker:
        return 0
    return int(runner.server_args.speculative_num_draft_tokens or 0)


def is_encoder(layer: RadixAttention) -> bool:
    """Whether every token of a sequence sees every other one."""
    return bool(layer.attn_type is AttentionType.ENCODER_ONLY)


def explain_options(options: Mapping[str, object]) -> str | None:
    """Returns the sentence that refuses a layer call's keyword arguments, or None."""
    unknown = [name for name, value in options.items() if name not in FORWARD_OPTIONS and value is not None]
    if not unknown:
        return None
    return (
        f"the model calls attention with {', '.join(unknown)}, but '{BACKEND_NAME}' knows "
        f"{', '.join(FORWARD_OPTIONS)} only"
    )


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype) for dtype in dtypes)
