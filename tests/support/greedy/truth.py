"""Fixtures of the engine suites: the model folder, the prompts and their greedy tokens."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.greedy import prompts as prompt_set
from support.greedy.transformers_reference import TransformersReference

REPOSITORY = Path(__file__).parents[3]
NEW_TOKENS = 64


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The folder made by tools/make_model.py; a missing model is an error, not a skip."""
    command = [sys.executable, str(REPOSITORY / "tools" / "make_model.py"), "--print-path"]
    path = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    assert (path / "config.json").is_file(), f"no model in {path}: run tools/make_model.py first"
    return path


@dataclass(frozen=True)
class Truth:
    """Prompts with the tokens transformers generates for them."""

    reference: TransformersReference
    prompts: list[list[int]]
    tokens: list[list[int]]

    def check(self, actual: list[list[int]]) -> None:
        """Asserts that every prompt's tokens are the greedy ones."""
        assert len(actual) == len(self.prompts)
        for index, (prompt, expected, tokens) in enumerate(
            zip(self.prompts, self.tokens, actual, strict=True)
        ):
            self.reference.check_greedy(f"prompt {index}", prompt, expected, tokens)


@pytest.fixture(scope="session")
def truth(model_dir: Path) -> Truth:
    """Greedy tokens from transformers, computed once a session."""
    from transformers import AutoTokenizer

    built = prompt_set.build(AutoTokenizer.from_pretrained(model_dir))
    reference = TransformersReference(model_dir)
    return Truth(reference, built, [reference.generate(prompt, NEW_TOKENS) for prompt in built])
