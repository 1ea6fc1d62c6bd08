"""A conversation whose prefix grows: every turn is answered as if it came alone, from cached pages."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.greedy.truth import Truth

from tests.sglang_plugin.engines import run_engine

ANSWER_TOKENS = 24
LOGPROB_ERROR = 1e-3

SAYINGS = [
    "What is the capital of France?",
    "And which river runs through it?",
    "Name one painter who lived there, and what he painted in his later years.",
    "Thanks!",
    "Which languages do people speak in the countries around it? Please name at least three of them.",
    "Now say goodbye in all of those languages.",
]


@pytest.mark.parametrize("page_size", [1, 64])
def test_every_turn_equals_a_cold_run(page_size: int, endless_model: Path, truth: Truth) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(endless_model)
    turns = [
        tokenizer(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
        for text in SAYINGS
    ]
    [talk] = run_engine(
        endless_model,
        [{"do": "converse", "turns": turns, "max_tokens": ANSWER_TOKENS}],
        page_size=page_size,
        chunked_prefill_size=128,
    )
    assert len(talk) == len(SAYINGS) == 6
    known = 0
    for number, turn in enumerate(talk, 1):
        name, prompt, cold = f"turn {number}", turn["prompt"], turn["cold"]
        assert turn["tokens"] == cold["tokens"], name
        errors = torch.tensor(turn["logprobs"][0]) - torch.tensor(cold["logprobs"][0])
        assert errors.abs().max() < LOGPROB_ERROR, name
        expected = truth.reference.generate(prompt, ANSWER_TOKENS)
        truth.reference.check_greedy(name, prompt, expected, turn["tokens"][0])
        # All whole pages of what was said before, but for its last token, which was never a key.
        assert turn["cached"] == [max(known - 1, 0) // page_size * page_size], name
        assert cold["cached"] == [0], name
        known = len(prompt) + ANSWER_TOKENS
    assert talk[-1]["cached"][0] > 150
