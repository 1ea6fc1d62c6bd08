"""Starts engines for the tests: environment, subprocess, result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).with_name("engine_process.py")
TIMEOUT_S = 900

ENGINE = {
    "dtype": "float32",
    "attention_backend": "hygon",
    "context_length": 4352,
    "max_total_tokens": 9216,
    "max_running_requests": 32,
    "mem_fraction_static": 0.5,
    "random_seed": 0,
    "log_level": "info",
    "skip_tokenizer_init": True,
}


def engine_environment(**extra: str) -> dict[str, str]:
    """This process's environment, made offline and free of variables that steer SGLang or us.

    The pool's books are checked after every batch, not only when the server is idle.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SGLANG_", "HYGON_BACKEND_")) or name == "HYGON_BACKEND_CACHE"
    }
    kept.pop("PA_PARTITION_SIZE", None)
    kept.update(HF_HUB_OFFLINE="1", SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY="1", **extra)
    return kept


def start(
    model: Path,
    steps: list[dict[str, Any]],
    result: Path,
    environment: dict[str, str],
    engine: dict[str, Any],
) -> subprocess.CompletedProcess[str]:
    """Runs `engine_process.run` in a new interpreter; what it prints is in the returned object."""
    job = {"engine": ENGINE | {"model_path": str(model)} | engine, "steps": steps}
    return subprocess.run(
        [sys.executable, str(RUNNER), str(result)],
        input=json.dumps(job),
        env=engine_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def run_engine(
    model: Path,
    steps: list[dict[str, Any]],
    *,
    environment: dict[str, str] | None = None,
    **engine: Any,  # noqa: ANN401 (arguments of sglang.Engine)
) -> list[Any]:
    """Runs steps on a new engine and returns their answers.

    Raises:
        AssertionError: the process failed, or SGLang logged that its pool's books do not balance.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = start(model, steps, result, environment or {}, engine)
        text = done.stdout[-8000:]
        assert done.returncode == 0, f"engine process failed:\n{text}"
        assert result.is_file(), f"engine process wrote no result:\n{text}"
        assert "leak detected" not in done.stdout, text
        answers: list[Any] = json.loads(result.read_text())
        return answers


def refused_engine(model: Path, environment: dict[str, str] | None = None, **engine: Any) -> str:  # noqa: ANN401
    """Starts an engine that must not come up; returns what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = start(model, [], result, environment or {}, {"load_format": "dummy"} | engine)
        assert done.returncode != 0, done.stdout[-3000:]
        assert not result.exists()
        return done.stdout
