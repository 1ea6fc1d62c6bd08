"""Fixtures of the SGLang suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.greedy.truth import model_dir, truth

__all__ = ["endless_model", "model_dir", "truth"]

NEVER_GENERATED = 49151
"""The last token id of SmolLM2's vocabulary."""


@pytest.fixture(scope="session")
def endless_model(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with an end-of-text token that it never generates.

    Asked to ignore the end of text, SGLang would reserve room for every token a request may generate
    and never have to retract one.
    """
    folder: Path = tmp_path_factory.mktemp("endless")
    for path in model_dir.iterdir():
        (folder / path.name).symlink_to(path)
    for name in ("config.json", "generation_config.json"):
        text = json.loads((folder / name).read_text()) | {"eos_token_id": NEVER_GENERATED}
        (folder / name).unlink()
        (folder / name).write_text(json.dumps(text))
    return folder
