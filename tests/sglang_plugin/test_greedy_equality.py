"""Greedy tokens of stock SGLang with the hygon backend equal transformers' own, in every serving mode."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.greedy.truth import NEW_TOKENS, Truth

from tests.sglang_plugin.engines import run_engine

TINY_POOL = 4480
"""Tokens: room for the 4,000-token prompt and little else, so that other requests are retracted."""


@dataclass(frozen=True)
class Mode:
    """One engine configuration."""

    name: str
    engine: dict[str, Any]
    passes: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    retracts: bool = False
    operators: tuple[str, ...] = ("paged_decode", "prefix_prefill", "write_kv")


def _mode(page: int, radix: bool, chunk: int | None, tiny: bool, overlap: bool) -> Mode:
    engine: dict[str, Any] = {
        "page_size": page,
        "disable_radix_cache": not radix,
        "disable_overlap_schedule": not overlap,
        "chunked_prefill_size": -1 if chunk is None else chunk,
    }
    name = f"page{page}-{'radix' if radix else 'noradix'}-{'overlap' if overlap else 'inturn'}"
    if chunk is not None:
        name += f"-chunks{chunk}"
        engine["enable_mixed_chunk"] = True
    if tiny:
        # Admits requests as if they were to generate next to nothing.
        engine.update(max_total_tokens=TINY_POOL, schedule_conservativeness=0.01)
        name += "-tinypool"
    return Mode(name, engine, passes=2 if radix and not tiny else 1, retracts=tiny)


MODES = [
    _mode(1, True, None, False, True),
    _mode(16, False, 192, False, False),
    _mode(64, True, 256, False, True),
    _mode(16, True, None, True, True),
    _mode(1, False, 200, True, False),
]

ALL_MODES = [
    _mode(page, radix, chunk, tiny, overlap)
    for page, radix, chunk, tiny, overlap in product(
        (1, 16, 32, 64, 128), (True, False), (None, 256), (False, True), (True, False)
    )
]


def _check(mode: Mode, endless_model: Path, truth: Truth) -> None:
    step = {"do": "generate", "prompts": truth.prompts, "max_tokens": NEW_TOKENS}
    *runs, state = run_engine(
        endless_model,
        [step] * mode.passes + [{"do": "state"}],
        environment=mode.environment,
        **mode.engine,
    )
    for run in runs:
        truth.check(run["tokens"])
    for operator in mode.operators:
        assert any(name.startswith(operator) for name in state["hygon_backend_calls"]), state
    assert state["page_size"] == mode.engine["page_size"]
    if mode.passes == 2:
        assert sum(runs[1]["cached"]) > 3900, "the second pass must be served from the cache"
    if mode.engine["disable_radix_cache"]:
        assert sum(sum(run["cached"]) for run in runs) == 0
    retractions = sum(sum(run["retractions"]) for run in runs)
    assert bool(retractions) == mode.retracts, retractions


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_greedy_tokens_equal_transformers(mode: Mode, endless_model: Path, truth: Truth) -> None:
    _check(mode, endless_model, truth)


@pytest.mark.full
@pytest.mark.parametrize("mode", ALL_MODES, ids=lambda mode: mode.name)
def test_greedy_tokens_equal_transformers_in_every_mode(
    mode: Mode, endless_model: Path, truth: Truth
) -> None:
    _check(mode, endless_model, truth)
