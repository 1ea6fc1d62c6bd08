"""Models whose attention is not plain: tiny random ones, stock SGLang against transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.greedy.prompts import CHATS
from support.greedy.tiny_models import (
    check_narrow,
    check_run,
    draw_prompts,
    gemma2,
    gemma3,
    llama_wide,
    make_model,
)
from transformers import PreTrainedModel

from tests.sglang_plugin.engines import run_engine

NEW_TOKENS = 24
NEVER_DRAWN = 255
"""Stands for the end of text; a request that meets it early fails the comparison of lengths."""


@pytest.mark.parametrize(
    ("make", "overrides"),
    [
        (gemma2, {"hidden_act": "gelu_pytorch_tanh"}),  # a name that transformers has dropped
        (gemma3, {}),
        # Keeps the windows' keys in a smaller pool of their own.
        (gemma3, {"is_hybrid_swa": True, "hybrid_layer_pattern": [1, 0, 1]}),
        (llama_wide, {}),
    ],
    ids=["gemma2", "gemma3", "gemma3-two-pools", "llama_wide"],
)
def test_greedy_tokens_equal_transformers(
    make: Callable[[], PreTrainedModel], overrides: dict[str, object], tmp_path: Path
) -> None:
    """Mistral is missing here: SGLang runs it without its window."""
    reference = make_model(make, tmp_path)
    prompts = draw_prompts()
    [run] = run_engine(
        tmp_path,
        [{"do": "generate", "prompts": prompts, "max_tokens": NEW_TOKENS}],
        context_length=256,
        max_total_tokens=2048,
        chunked_prefill_size=64,
        enable_mixed_chunk=True,
        page_size=16,
        json_model_override_args=json.dumps({"eos_token_id": NEVER_DRAWN} | overrides),
    )
    check_run(reference, prompts, run["tokens"], run["logprobs"])


@pytest.mark.parametrize(
    ("dtype", "kv_cache_dtype", "allowed"),
    [
        ("bfloat16", "auto", 0.1),
        pytest.param("float16", "auto", 0.01, marks=pytest.mark.full),
        ("float32", "fp8_e4m3", 0.2),
        pytest.param("float32", "fp8_e5m2", 0.4, marks=pytest.mark.full),
    ],
)
def test_narrow_types_are_nearly_as_sure_as_float32(
    dtype: str, kv_cache_dtype: str, allowed: float, endless_model: Path, model_dir: Path
) -> None:
    """Rounding may change an answer, but by and large not how probable the model finds its tokens.

    The bounds are those of vLLM's suite.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in CHATS[:4]
    ]
    run, state = run_engine(
        endless_model,
        [{"do": "generate", "prompts": prompts, "max_tokens": NEW_TOKENS}, {"do": "state"}],
        page_size=16,
        dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
    )
    assert state["kv_cache_dtype"] == kv_cache_dtype
    check_narrow(model_dir, prompts, run["tokens"], run["logprobs"], allowed)
