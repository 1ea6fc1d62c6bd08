"""Makes the checkout's `benchmarks` importable however pytest is started, and its timing short."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(scope="session", autouse=True)
def _few_repeats() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.timing._MIN_REPEATS", 2)
        patch.setattr("benchmarks.timing._MAX_REPEATS", 2)
        yield
