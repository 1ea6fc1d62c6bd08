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


def row_of(step: str, log: str) -> dict[str, object] | None:
    """The record of one step: pytest's counts, or the calls that a checker watched; None for a build."""
    tests = re.search(r"^(?:(\d+) failed, )?(\d+) passed", log, re.MULTILINE)
    calls = re.search(r"^\{.*\[native\].*\}$", log, re.MULTILINE)
    if tests:
        passed = int(tests[2])
        total, metric = passed + int(tests[1] or 0), "tests passed"
    elif calls:
        total, metric = sum(ast.literal_eval(calls[0]).values()), "calls without a finding"
        passed = total if f"passed: {step}" in log else 0
    else:
        return None
    return {"case": step, "metric": metric, "ours": passed, "limit": total, "peers": {}}


def main(folder: str, device: str, name: str) -> None:
    """Reads FOLDER/*.log and writes NAME.json and NAME.log."""
    logs = {path.stem: path.read_text() for path in sorted(Path(folder).glob("*.log"))}
    rows = [row for step, log in logs.items() if (row := row_of(step, log))]
    date = next(iter(logs.values())).splitlines()[1]
    record = {"command": "tools/card_check.sh FOLDER", "date": date, "device": device, "rows": rows}
    Path(f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    Path(f"{name}.log").write_text("\n".join(f"== {step}\n{log}" for step, log in logs.items()))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
