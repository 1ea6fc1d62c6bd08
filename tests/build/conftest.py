"""Shared by the build tests: fake tools, and a check on the form of every refusal."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from build_helpers import Refusal, ToolFolder

# setup.py's helper package is not installed, so it is imported from the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from build_support.errors import BuildError


@pytest.fixture
def refusal() -> Refusal:
    """Calls a function that must refuse, and returns its sentence after checking its form."""

    def call(function: Callable[[], object]) -> str:
        with pytest.raises(BuildError) as caught:
            function()
        sentence = str(caught.value)
        assert isinstance(caught.value, SystemExit), "Python would print a traceback"
        assert sentence.startswith("hygon_backend: ")
        assert sentence.endswith(".")
        assert "\n" not in sentence
        return sentence.removeprefix("hygon_backend: ")

    return call


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    return ToolFolder(tmp_path / "tools")
