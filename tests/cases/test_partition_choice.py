"""How many partitions the native decode chooses, as its debug log tells."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from support.backends import BACKENDS

from hygon_backend.native_path import paged_decode as native_paged_decode

COMPUTE_UNITS = 8
"""What the emulated device reports; two blocks of the decode kernel fit on each."""


def chosen(
    caplog: pytest.LogCaptureFixture,
    *,
    seqs: int,
    heads: tuple[int, int],
    pages: int,
    size: int | None = None,
) -> tuple[int, int]:
    """(partitions, keys in the smallest) of a call on sequences of length 1, 64 tokens a page."""
    backend = BACKENDS["emulation"]
    cache = torch.zeros(1, 64, heads[1], 64, dtype=torch.bfloat16)
    q = torch.zeros(seqs, heads[0], 64, dtype=torch.bfloat16)
    table = torch.zeros(seqs, pages, dtype=torch.int32)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, native_paged_decode.__name__):
        backend.ops.paged_decode(
            q, cache, cache, table, torch.ones(seqs, dtype=torch.int32), partition_size=size
        )
    found = re.search(r"(\d+) partitions of at least (\d+) keys", caplog.text)
    assert found, caplog.text
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(
    ("seqs", "heads", "pages", "want"),
    [
        pytest.param(1, (4, 2), 640, (8, 512), id="few blocks: split until the device is full"),
        pytest.param(8, (4, 2), 640, (1, 512), id="the device is full already"),
        pytest.param(1, (4, 2), 8, (1, 512), id="512 tokens are one partition"),
        pytest.param(1, (16, 1), 8, (2, 256), id="large groups split from 256 tokens"),
        pytest.param(1, (15, 1), 8, (1, 512), id="groups of 15 are not large"),
        pytest.param(64, (4, 2), 640, (1, 512), id="many rounds need no split"),
    ],
)
def test_the_split_follows_the_device(
    caplog: pytest.LogCaptureFixture, seqs: int, heads: tuple[int, int], pages: int, want: tuple[int, int]
) -> None:
    assert chosen(caplog, seqs=seqs, heads=heads, pages=pages) == want


def test_a_size_that_is_asked_for_is_taken_in_whole_tiles(caplog: pytest.LogCaptureFixture) -> None:
    assert chosen(caplog, seqs=1, heads=(4, 2), pages=4, size=100) == (3, 112)
    assert chosen(caplog, seqs=1, heads=(4, 2), pages=4, size=2**40) == (1, 2**30)
