"""Turns the logs of `tools/card_check.sh` into one log and one JSON record.

Usage: python tools/card_report.py FOLDER "DEVICE NAME" benchmarks/results/NAME

Writes NAME.json (rows: a step's passed tests or clean calls, out of how many) and NAME.log (all steps).
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path


def row_of(step: str, log: str) -> dict[str, object]:
    """The record of one step: pytest's counts, the calls that a checker watched, or the step itself.

    A step that did not end well and has no counts of its own counts as 0 of 1.
    """
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?)\b", log)}
    calls = re.search(r"^\{.*\[native\].*\}$", log, re.MULTILINE)
    succeeded = f"passed: {step}\n" in log
    if calls:  # first: a checker counts errors as well
        total = sum(ast.literal_eval(calls[0]).values())
        metric, good = "calls without a finding", total if succeeded else 0
    elif counts:
        metric, good, total = "tests passed", counts.get("passed", 0), sum(counts.values())
    else:
        metric, good, total = "succeeded", int(succeeded), 1
    return {"case": step, "metric": metric, "ours": good, "limit": total, "peers": {}}


def main(folder: str, device: str, name: str) -> None:
    """Reads FOLDER/*.log and writes NAME.json and NAME.log."""
    logs = {path.stem: path.read_text() for path in sorted(Path(folder).glob("*.log"))}
    rows = [row_of(step, log) for step, log in logs.items()]
    date = next(iter(logs.values())).splitlines()[1]
    record = {"command": "tools/card_check.sh FOLDER", "date": date, "device": device, "rows": rows}
    Path(f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    Path(f"{name}.log").write_text("\n".join(f"== {step}\n{log}" for step, log in logs.items()))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
