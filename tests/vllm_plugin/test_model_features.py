"""Models whose attention is not plain: tiny random ones, stock vLLM against transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.greedy.prompts import CHATS
from support.greedy.tiny_models import (
    bloom,
    check_narrow,
    check_run,
    draw_prompts,
    gemma2,
    llama_wide,
    make_model,
    mistral,
)
from transformers import PreTrainedModel

from tests.vllm_plugin.engines import run_engine

NEW_TOKENS = 24

MODELS = [gemma2, mistral, bloom, llama_wide]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_greedy_tokens_equal_transformers(make: Callable[[], PreTrainedModel], tmp_path: Path) -> None:
    reference = make_model(make, tmp_path)
    prompts = draw_prompts()
    result = run_engine(
        tmp_path,
        prompts,
        max_tokens=NEW_TOKENS,
        skip_tokenizer_init=True,
        max_model_len=256,
        max_num_batched_tokens=64,
        max_num_seqs=8,
        block_size=16,
        kv_cache_memory_bytes=1 << 27,
    )
    run = result["passes"][0]
    check_run(reference, prompts, run["tokens"], run["logprobs"])


@pytest.mark.parametrize(
    ("dtype", "kv_cache_dtype", "allowed"),
    [
        ("bfloat16", "bfloat16", 0.1),
        pytest.param("float16", "auto", 0.01, marks=pytest.mark.full),
        ("float32", "fp8_e4m3", 0.2),
        pytest.param("float32", "fp8_e5m2", 0.4, marks=pytest.mark.full),
    ],
)
def test_narrow_types_are_nearly_as_sure_as_float32(
    dtype: str, kv_cache_dtype: str, allowed: float, model_dir: Path
) -> None:
    """Rounding may change an answer, but by and large not how probable the model finds its tokens.

    `allowed` bounds the mean change of the log-probability: about twice of what was seen, for bfloat16
    three times the change in transformers' own bfloat16.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in CHATS[:4]
    ]
    result = run_engine(
        model_dir, prompts, max_tokens=NEW_TOKENS, max_model_len=256, block_size=16, dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
    )  # fmt: skip
    run = result["passes"][0]
    check_narrow(model_dir, prompts, run["tokens"], run["logprobs"], allowed)
