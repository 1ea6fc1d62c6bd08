"""The cells of the decode grid: what is varied, and how a cell is written down."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

HEAD_SIZE = 128
ELEMENT_BYTES = 2
"""Of bfloat16, the element type of the whole grid."""

Axes = Mapping[str, Sequence[str]]
"""Values of each axis as they are written on the command line."""

FULL: Axes = {
    "heads": ("32/8", "64/8", "28/4", "9/3", "8/8"),
    "page": ("16", "64"),
    "batch": ("1", "8", "64", "256"),
    "length": ("1024", "8192", "32768"),
}
QUICK: Axes = {"heads": ("32/8", "28/4"), "page": ("16", "64"), "batch": ("1", "64"), "length": ("8192",)}

_TEXT = re.compile(r"batch=(\d+) length=(\d+) heads=(\d+)/(\d+) page=(\d+)")


@dataclass(frozen=True)
class Case:
    """One cell: every sequence of the batch has `length` keys."""

    batch: int
    length: int
    heads_q: int
    heads_kv: int
    page: int

    def __str__(self) -> str:
        return (
            f"batch={self.batch} length={self.length} heads={self.heads_q}/{self.heads_kv} page={self.page}"
        )

    @staticmethod
    def parse(text: str) -> Case:
        """Reads what `str` wrote; raises ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a cell of the decode grid: {text!r}")
        return Case(*map(int, match.groups()))

    @property
    def pages_per_sequence(self) -> int:
        """Pages that hold one sequence, the last one perhaps in part."""
        return -(-self.length // self.page)

    @property
    def pool_elements(self) -> int:
        """Elements of the key pool that holds the case's pages; the value pool has as many."""
        return self.batch * self.pages_per_sequence * self.page * self.heads_kv * HEAD_SIZE

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values that a decode step has to read once."""
        return 2 * self.batch * self.length * self.heads_kv * HEAD_SIZE * ELEMENT_BYTES


def with_values(axes: Axes, changes: Iterable[str]) -> dict[str, Sequence[str]]:
    """Replaces axes by what `AXIS=VALUE[,VALUE...]` texts say; raises ValueError for an unknown axis."""
    result = dict(axes)
    for change in changes:
        axis, separator, values = change.partition("=")
        if not separator or axis not in result:
            raise ValueError(f"{change!r}: write AXIS=VALUE[,VALUE...] with an AXIS of {', '.join(result)}")
        result[axis] = values.split(",")
    return result


def cells(axes: Axes) -> list[Case]:
    """All cells, those of one kernel instantiation (heads, page) next to each other."""
    return [
        Case.parse(f"batch={batch} length={length} heads={heads} page={page}")
        for heads, page, batch, length in itertools.product(
            axes["heads"], axes["page"], axes["batch"], axes["length"]
        )
    ]
