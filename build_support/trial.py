"""Trying a compiler on a few lines, so that a broken one is named before the build starts."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from build_support.tools import main_complaint, run_tool


def try_build(compiler: Sequence[str], linker: Sequence[str], file_name: str, text: str) -> str | None:
    """Compiles `text` and links it as a shared library; returns the failing tool's complaint, or None."""
    with tempfile.TemporaryDirectory() as folder:
        source, unit, library = (str(Path(folder, name)) for name in (file_name, "trial.o", "trial.so"))
        Path(source).write_text(text)
        for command in ([*compiler, "-c", source, "-o", unit], [*linker, unit, "-o", library]):
            result = run_tool(command)
            if result.returncode != 0:
                return main_complaint(result)
    return None
