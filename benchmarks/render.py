"""Makes a Markdown table and a plot from a record.

    python -m benchmarks.render benchmarks/results/paged_decode.json

Writes the table and the plot next to the record, as .md and .png.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import plot
from benchmarks.prefill_cases import PrefillCase
from benchmarks.results import Results, Row


@dataclass(frozen=True)
class _Metric:
    """How values of a metric are written."""

    limit: str
    """What the limit is."""
    unit: str
    scale: float
    meaning: str


_METRICS = {
    "kv_bytes_per_second": _Metric(
        "copy bandwidth",
        "GB/s",
        1e9,
        "gigabytes of keys and values a second, with the fraction of the copy bandwidth",
    ),
    "flops_per_second": _Metric(
        "matrix product", "TFLOP/s", 1e12, "TFLOP/s, with the fraction of the matrix product's rate"
    ),
}

_MOST_LISTED = 3
"""More cells than this with one reason are counted, not listed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Renders one record; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.render", description=__doc__.split("\n")[0])
    parser.add_argument("record", type=Path)
    path = parser.parse_args(arguments).record
    results = Results.read(path)
    path.with_suffix(".md").write_text(markdown(results))
    plot.draw(results, path.with_suffix(".png"))
    return 0


def markdown(results: Results) -> str:
    """The whole record: how it was made, a summary, the table, and why values are missing."""
    peers = list(dict.fromkeys(name for row in results.rows for name in row.peers))
    metric = _METRICS[results.rows[0].metric]
    header = ["cell", "ours", *peers]
    lines = [
        f"Measured {results.date} on {results.device}",
        "",
        f"    {results.command}",
        "",
        *_summary(results.rows),
        "",
        f"Values are {metric.meaning}.",
        "",
        f"| {' | '.join(header)} |",
        f"|---|{'---:|' * (len(header) - 1)}",
    ]
    for row in results.rows:
        values = [row.ours, *(row.peers.get(name) for name in peers)]
        lines.append(f"| {row.case} | {' | '.join(_entry(value, row.limit, metric) for value in values)} |")
    if results.rows[0].metric == "flops_per_second":
        lines += ["", *_floors(results.rows)]
    missing = _missing(results.rows)
    if missing:
        lines += ["", "Missing values:", "", *missing]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row]) -> list[str]:
    """What a reader wants first; the limit is one number a run."""
    metric = _METRICS[rows[0].metric]
    lines = [f"- {metric.limit}: {rows[0].limit / metric.scale:.4g} {metric.unit}"]
    ours = [row.ours / row.limit for row in rows if row.ours is not None]
    if ours:
        lines.append(
            f"- ours: {min(ours):.2f} to {max(ours):.2f} of it, median {statistics.median(ours):.2f},"
            f" over {len(ours)} cells"
        )
    for name in dict.fromkeys(name for row in rows for name in row.peers):
        ratios = [
            row.ours / value
            for row in rows
            if row.ours is not None and (value := row.peers.get(name)) is not None
        ]
        if ratios:
            wins = sum(ratio >= 1 for ratio in ratios)
            lines.append(
                f"- against {name}: as fast or faster in {wins} of {len(ratios)} cells,"
                f" median ratio {statistics.median(ratios):.2f}"
            )
    return lines


def _floors(rows: Sequence[Row]) -> list[str]:
    """What each prefill has to do at least, beside what it took."""
    lines = [
        "What each cell has to do at least: operations on the pairs that the mask leaves, and queries,",
        "outputs, keys and values once each. The floor is the operations at the matrix product's rate.",
        "",
        "| cell | GFLOP | MB | floor, ms | ours, ms | ours/floor |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        case = PrefillCase.parse(row.case)
        floor = case.flops / row.limit * 1e3
        start = f"| {row.case} | {case.flops / 1e9:.4g} | {case.least_bytes / 1e6:.4g} | {floor:.3g} |"
        if row.ours is None:
            lines.append(f"{start} – | – |")  # noqa: RUF001
        else:
            lines.append(f"{start} {case.flops / row.ours * 1e3:.3g} | {row.limit / row.ours:.2f} |")
    return lines


def _missing(rows: Sequence[Row]) -> list[str]:
    """Every distinct reason once, with the cells that it concerns."""
    cells = defaultdict(list)
    for row in rows:
        for name, reason in row.why.items():
            cells[name, reason].append(row.case)
    return [f"- {name}: {reason} ({_places(where, len(rows))})" for (name, reason), where in cells.items()]


def _places(cells: Sequence[str], total: int) -> str:
    if len(cells) == total:
        return "all cells"
    return "; ".join(cells) if len(cells) <= _MOST_LISTED else f"{len(cells)} cells, as {cells[0]}"


def _entry(value: float | None, limit: float, metric: _Metric) -> str:
    return "–" if value is None else f"{value / metric.scale:.4g} ({value / limit:.2f})"  # noqa: RUF001


if __name__ == "__main__":
    sys.exit(main())
