"""The operator cases on emulated kernels under conditions that expose what one run alone may hide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"


def run_cases(selection: str, extra_environment: dict[str, str]) -> str:
    """Runs the chosen cases on the emulation in a process of its own and returns pytest's last line."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "1800"]
    command += ["-m", "not full", "-k", f"emulation and ({selection})", "tests/cases"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | extra_environment
    run = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]
    return run.stdout.strip().splitlines()[-1]


def test_fibers_in_reversed_order() -> None:
    """A barrier that is missing shows when the waves and lanes of a block run in the other order."""
    summary = run_cases(
        "gqa or case_07 or case_20 or case_24 or copies or write or prefill_forms",
        {"HYGON_EMULATION_ORDER": "reversed"},
    )
    assert "passed" in summary


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_under_sanitizers() -> None:
    """Reads and writes past LDS, stacks and buffers, and undefined arithmetic."""
    library = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = {
        "HYGON_EMULATION_CXXFLAGS": SANITIZED,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    assert "passed" in run_cases("not case_05 and not 131072", environment)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("unit", [0, 2, 3], ids=["mfma", "mmac-layout-2", "no-matrix-unit"])
def test_other_matrix_units(unit: int) -> None:
    """The default run emulates MMAC layout 1."""
    environment = {"HYGON_EMULATION_CXXFLAGS": f"-DHYGON_EMULATED_UNIT={unit}"}
    assert "passed" in run_cases("not case_05 and not 131072", environment)
