"""Our backend for prefill or for decode only, SGLang's PyTorch attention for the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.greedy.truth import NEW_TOKENS, Truth

from tests.sglang_plugin.engines import run_engine


@pytest.mark.parametrize(
    ("ours", "ran", "idle"),
    [
        ("prefill_attention_backend", "prefix_prefill", "paged_decode"),
        ("decode_attention_backend", "paged_decode", "prefix_prefill"),
    ],
)
def test_one_of_two_backends(ours: str, ran: str, idle: str, endless_model: Path, truth: Truth) -> None:
    chosen = range(1, 12)
    prompts = [truth.prompts[index] for index in chosen]
    run, state = run_engine(
        endless_model,
        [{"do": "generate", "prompts": prompts, "max_tokens": NEW_TOKENS}, {"do": "state"}],
        page_size=16,
        attention_backend="torch_native",
        **{ours: "hygon"},
    )
    for index, tokens in zip(chosen, run["tokens"], strict=True):
        truth.reference.check_greedy(f"prompt {index}", truth.prompts[index], truth.tokens[index], tokens)
    calls = {name.partition("[")[0] for name in state["hygon_backend_calls"]}
    assert ran in calls
    assert idle not in calls
