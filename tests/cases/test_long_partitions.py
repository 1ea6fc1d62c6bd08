"""Partitions of more pages than the decode kernel stages at a time (1,024 page ids), and empty calls."""

from __future__ import annotations

import pytest
import torch
from support.backends import Backend
from support.check import check_decode
from support.paging import page
from support.problem import Rules, make_problem

from hygon_backend.errors import InvalidArgumentError
from hygon_backend.kv_layout import KVLayout


@pytest.mark.parametrize(
    ("block_size", "length", "heads", "window"),
    [
        (1, 2500, (2, 1), None),
        (1, 2100, (40, 1), None),
        (1, 3000, (20, 1), 1500),
        (3, 4000, (2, 1), None),
        (3, 7000, (2, 1), 3100),
        (16, 17_000, (2, 1), None),
    ],
)
def test_page_ids_are_staged_again_within_a_partition(
    backend: Backend, block_size: int, length: int, heads: tuple[int, int], window: int | None
) -> None:
    problem = make_problem([1, 1], [length, 5], heads=heads, rules=Rules(window=window), sharpness=3)
    check_decode(backend, problem, page(problem, block_size=block_size), partition_size=1 << 20)


@pytest.mark.parametrize("shape", [(0, 4, 64), (3, 0, 64), (3, 0, 4, 64), (0, 2, 4, 64)])
def test_calls_without_rows(backend: Backend, shape: tuple[int, ...]) -> None:
    q = backend.adopt(torch.zeros(shape, dtype=backend.dtype))
    cache = backend.adopt(torch.zeros(2, 16, 2, 64, dtype=backend.dtype))
    table = backend.adopt(torch.zeros(shape[0], 1, dtype=torch.int32))
    seq_lens = backend.adopt(torch.ones(shape[0], dtype=torch.int32))
    out, lse = backend.ops.paged_decode(q, cache, cache, table, seq_lens, return_lse=True)
    assert out.shape == shape
    assert lse.shape == shape[:-1]


def test_small_partitions_of_a_wide_table_are_lengthened(backend: Backend) -> None:
    """70,000 columns in partitions of 16 would exceed the grid: longer partitions give the same."""
    problem = make_problem([1], [40])
    paged = page(problem, block_size=16, spare_columns=70_000)
    check_decode(backend, problem, paged, partition_size=16)


def test_keys_packed_by_other_than_16_bytes_are_refused(backend: Backend) -> None:
    keys = backend.adopt(torch.zeros(2, 2, 16, 16, 4, dtype=torch.bfloat16))
    values = backend.adopt(torch.zeros(2, 2, 64, 16, dtype=torch.bfloat16))
    q = backend.adopt(torch.zeros(1, 4, 64, dtype=torch.bfloat16))
    index = backend.adopt(torch.zeros(1, 1, dtype=torch.int32))
    with pytest.raises(InvalidArgumentError, match="last axis of k_cache is 4, but must be 8"):
        backend.ops.paged_decode(q, keys, values, index, index[0], layout=KVLayout.X_PACKED)
