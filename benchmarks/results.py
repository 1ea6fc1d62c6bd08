"""The record that a benchmark writes and that tables and plots are made from."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

FOLDER = Path(__file__).parent / "results"


@dataclass
class Row:
    """One cell. Values are in the metric's unit, higher is better; None where `why` says why."""

    case: str
    metric: str
    ours: float | None
    limit: float
    """What the device can do at best, measured in the same run."""
    peers: dict[str, float | None] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Reason of each missing value, by peer name, or `ours`."""

    def __str__(self) -> str:
        fractions = (
            f"{name} {'-' if value is None else f'{value / self.limit:.2f}'}"
            for name, value in {"ours": self.ours, **self.peers}.items()
        )
        return f"{self.case}:  {'  '.join(fractions)}"


@dataclass
class Results:
    """One run of one benchmark."""

    command: str
    date: str
    device: str
    rows: list[Row] = field(default_factory=list)

    @staticmethod
    def started(command: Sequence[str], device: str) -> Results:
        """An empty record of a command that starts now."""
        return Results(shlex.join(command), datetime.now(timezone.utc).isoformat(timespec="seconds"), device)

    @staticmethod
    def read(path: Path) -> Results:
        """Reads what `write` wrote."""
        content = json.loads(path.read_text())
        rows = [Row(**row) for row in content.pop("rows")]
        return Results(rows=rows, **content)

    def write(self, path: Path) -> None:
        """Writes the file at once or not at all, so that a run cut short leaves its last whole state."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        os.replace(partial, path)
