"""Starts engines for the tests: environment, subprocess, result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).with_name("engine_process.py")
TIMEOUT_S = 900


def engine_environment(**extra: str) -> dict[str, str]:
    """This process's environment, made offline and free of variables that steer vLLM or us."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "HYGON_BACKEND_")) or name == "HYGON_BACKEND_CACHE"
    }
    kept.pop("PA_PARTITION_SIZE", None)
    kept.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", **extra)
    return kept


def run_engine(
    model: Path,
    prompts: list[list[int]],
    *,
    max_tokens: int,
    passes: int = 1,
    environment: dict[str, str] | None = None,
    **engine: Any,  # noqa: ANN401 (arguments of vllm.LLM)
) -> dict[str, Any]:
    """Runs `engine_process.run` in a new interpreter and returns its result.

    Raises:
        AssertionError: the process failed; the message holds the end of its output.
    """
    job = {
        "engine": {"model": str(model), "kv_cache_memory_bytes": 1 << 30, **engine},
        "prompts": prompts,
        "max_tokens": max_tokens,
        "passes": passes,
    }
    done = subprocess.run(
        [sys.executable, str(RUNNER)],
        input=json.dumps(job),
        env=engine_environment(**(environment or {})),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"engine process failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
