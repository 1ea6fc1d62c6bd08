"""How many partitions the native kernels choose, as their debug logs tell."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from support.backends import BACKENDS

from hygon_backend.native_path import paged_decode as native_paged_decode
from hygon_backend.native_path import prefix_prefill as native_prefix_prefill

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
    return told(caplog)


def told(caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """(partitions, keys in the smallest) of the call just made."""
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


def chosen_in_prefill(
    caplog: pytest.LogCaptureFixture,
    *,
    tokens: int,
    seqs: int = 1,
    heads: tuple[int, int] = (4, 2),
    keys: int,
    size: int | None = None,
    ragged: bool = False,
) -> tuple[int, int]:
    """The same of a prefill whose table has room for `keys` keys a sequence, of which none is used."""
    backend = BACKENDS["emulation"]
    cache = torch.zeros(1, 1 if ragged else 64, heads[1], 64, dtype=torch.bfloat16)
    q = torch.zeros(tokens, heads[0], 64, dtype=torch.bfloat16)
    none = torch.zeros(seqs + 1, dtype=torch.int32)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, native_prefix_prefill.__name__):
        if ragged:
            slots = cache.flatten(0, 1)
            entries = torch.zeros(keys * seqs, dtype=torch.int32)
            backend.ops.ragged_prefill(q, slots, slots, none, none, entries, partition_size=size)
        else:
            table = torch.zeros(seqs, keys // 64, dtype=torch.int32)
            backend.ops.prefix_prefill(q, cache, cache, table, none, none[1:], partition_size=size)
    return told(caplog)


@pytest.mark.parametrize("ragged", [False, True], ids=["paged", "ragged"])
@pytest.mark.parametrize(
    ("tokens", "seqs", "keys", "want"),
    [
        pytest.param(16, 1, 40960, 8, id="one block a head: split until the device is full"),
        pytest.param(16, 4, 40960, 2, id="four sequences: a quarter of that"),
        pytest.param(16, 1, 256, 1, id="256 keys are one partition"),
        pytest.param(2048, 1, 2048, 1, id="the device is full already"),
        pytest.param(0, 1, 40960, 1, id="no queries"),
    ],
)
def test_the_split_of_a_prefill_follows_the_device(
    caplog: pytest.LogCaptureFixture, tokens: int, seqs: int, keys: int, want: int, ragged: bool
) -> None:
    got = chosen_in_prefill(caplog, tokens=tokens, seqs=seqs, keys=keys, ragged=ragged)
    assert got == (want, 256)


@pytest.mark.parametrize("ragged", [False, True], ids=["paged", "ragged"])
def test_without_sequences_nothing_is_split(caplog: pytest.LogCaptureFixture, ragged: bool) -> None:
    assert chosen_in_prefill(caplog, tokens=3, seqs=0, keys=4096, ragged=ragged) == (1, 256)


def test_a_prefill_takes_the_size_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """In whole stages of 64 keys, as far as a workspace of 1 GiB goes."""
    assert chosen_in_prefill(caplog, tokens=16, keys=1024, size=100) == (8, 128)
    assert chosen_in_prefill(caplog, tokens=16, keys=1024, size=2**40) == (1, 2**30)
    count, keys = chosen_in_prefill(caplog, tokens=1024, heads=(64, 64), keys=1 << 16, size=64)
    row_bytes = (64 + 1) * 4
    assert keys == 64
    assert 0.99 * 2**30 < count * 1024 * 64 * row_bytes <= 2**30
