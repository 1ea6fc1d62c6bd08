"""Types that the build tests share; a module of its own, since `conftest` names several files."""

import shutil
from collections.abc import Callable
from pathlib import Path

Refusal = Callable[[Callable[[], object]], str]
"""Calls a function that must refuse to build, and returns its sentence."""


class ToolFolder:
    """A folder of fake tools that stands in for PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, script: str) -> str:
        """Writes an executable shell script and returns its path."""
        tool = self.folder / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        return str(tool)

    def which(self, name: str) -> str | None:
        """Like `shutil.which`, over this folder alone."""
        return shutil.which(name, path=str(self.folder))
