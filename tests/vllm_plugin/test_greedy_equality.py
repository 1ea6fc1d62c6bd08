"""Greedy tokens of stock vLLM with HYGON_ATTN equal transformers' own, in every serving mode."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.greedy.truth import NEW_TOKENS, Truth

from tests.vllm_plugin.engines import run_engine

MAX_MODEL_LEN = 4352
TOKEN_BYTES = 30 * 2 * 3 * 64 * 4
"""Cache bytes of one token: layers x (K, V) x KV heads x head size x float32."""

TINY_POOL = 4608 * TOKEN_BYTES
"""Room for the 4,000-token prompt and little else: the other requests must be preempted."""


@dataclass(frozen=True)
class Mode:
    """One engine configuration."""

    name: str
    engine: dict[str, Any]
    passes: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    preempts: bool = False
    operators: tuple[str, ...] = ("paged_decode", "prefix_prefill", "write_kv")


def _mode(block_size: int, caching: bool, batch: int | None, tiny: bool) -> Mode:
    engine: dict[str, Any] = {"block_size": block_size, "enable_prefix_caching": caching}
    name = f"block{block_size}-{'cached' if caching else 'uncached'}"
    if batch is not None:
        engine.update(max_num_batched_tokens=batch, max_num_seqs=32)
        name += f"-chunks{batch}"
    if tiny:
        engine["kv_cache_memory_bytes"] = TINY_POOL
        name += "-tinypool"
    return Mode(name, engine, passes=2 if caching and not tiny else 1, preempts=tiny)


MODES = [
    _mode(16, True, None, False),
    _mode(32, False, None, False),
    _mode(64, True, 200, False),
    _mode(16, False, 256, True),
    _mode(64, True, None, True),
    Mode("split-kv", {"block_size": 32}, environment={"PA_PARTITION_SIZE": "48"}),
]

ALL_MODES = [
    _mode(block, caching, batch, tiny)
    for block, caching, batch, tiny in product((16, 32, 64), (True, False), (None, 200), (False, True))
]


def _check(mode: Mode, model_dir: Path, truth: Truth) -> None:
    result = run_engine(
        model_dir,
        truth.prompts,
        max_tokens=NEW_TOKENS,
        passes=mode.passes,
        environment=mode.environment,
        max_model_len=MAX_MODEL_LEN,
        attention_backend="HYGON_ATTN",
        **mode.engine,
    )
    for run in result["passes"]:
        truth.check(run["tokens"])
    for operator in mode.operators:
        assert any(name.startswith(operator) for name in result["calls"]), result["calls"]
    assert result["block_size"] == mode.engine["block_size"]
    if mode.passes == 2:
        assert sum(result["passes"][1]["cached"]) > 3900, "the second pass must be served from the cache"
    if mode.engine.get("enable_prefix_caching") is False:
        assert sum(sum(run["cached"]) for run in result["passes"]) == 0
    assert bool(result["preemptions"]) == mode.preempts, result["preemptions"]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_greedy_tokens_equal_transformers(mode: Mode, model_dir: Path, truth: Truth) -> None:
    _check(mode, model_dir, truth)


@pytest.mark.full
@pytest.mark.parametrize("mode", ALL_MODES, ids=lambda mode: mode.name)
def test_greedy_tokens_equal_transformers_in_every_mode(mode: Mode, model_dir: Path, truth: Truth) -> None:
    _check(mode, model_dir, truth)


def test_the_check_can_fail(truth: Truth) -> None:
    wrong = [list(tokens) for tokens in truth.tokens]
    wrong[3][10] = (wrong[3][10] + 1) % 1000
    with pytest.raises(AssertionError, match="prompt 3: token"):
        truth.check(wrong)
