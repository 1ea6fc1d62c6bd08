"""The cells of the prefill grid: what is varied, and how a cell is written down."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from benchmarks.cases import ELEMENT_BYTES, HEAD_SIZE, Axes

FULL: Axes = {
    "heads": ("32/8", "8/2", "8/8", "6/1"),
    "lengths": ("12800/51200", "5120/51200", "512/51200", "4096/4096", "64/8192"),
    "page": ("16", "64"),
}

_TEXT = re.compile(r"heads=(\d+)/(\d+) q=(\d+) kv=(\d+) page=(\d+)")


@dataclass(frozen=True)
class PrefillCase:
    """One cell: a sequence of `kv_len` keys, of which the last `q_len` are new."""

    heads_q: int
    heads_kv: int
    q_len: int
    kv_len: int
    page: int

    def __str__(self) -> str:
        heads = f"heads={self.heads_q}/{self.heads_kv}"
        return f"{heads} q={self.q_len} kv={self.kv_len} page={self.page}"

    @staticmethod
    def parse(text: str) -> PrefillCase:
        """Reads what `str` wrote; raises ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a cell of the prefill grid: {text!r}")
        return PrefillCase(*map(int, match.groups()))

    @property
    def num_pages(self) -> int:
        """Pages of the sequence, the last one perhaps in part."""
        return -(-self.kv_len // self.page)

    @property
    def flops(self) -> int:
        """Operations on query-key pairs that the causal mask leaves: two products, two operations each."""
        pairs = self.q_len * (self.kv_len - self.q_len) + self.q_len * (self.q_len + 1) // 2
        return 4 * pairs * self.heads_q * HEAD_SIZE

    @property
    def least_bytes(self) -> int:
        """Queries and outputs, keys and values, each once."""
        return 2 * HEAD_SIZE * ELEMENT_BYTES * (self.q_len * self.heads_q + self.kv_len * self.heads_kv)


def prefill_cells(axes: Axes) -> list[PrefillCase]:
    """All cells."""
    cells = []
    for heads, lengths, page in itertools.product(axes["heads"], axes["lengths"], axes["page"]):
        q_len, _, kv_len = lengths.partition("/")
        cells.append(PrefillCase.parse(f"heads={heads} q={q_len} kv={kv_len} page={page}"))
    return cells
