"""Cases 19 to 23: partition limits, and buffers that are reused with other lengths.

A captured graph replays the same launches on the same buffers with new contents. These tests replay
by hand: one set of buffers, changed in place between calls. Capture itself is tested on a card.
"""

import pytest
import torch
from support.backends import Backend
from support.check import assert_lse, assert_output, check_decode, check_prefill
from support.paging import page
from support.problem import Problem, make_problem

PARTITIONS = [1, 16, 100, 128, 256, 512]


class Replayed:
    """Buffers of one decode call that is issued again and again with new contents."""

    def __init__(self, backend: Backend, rows: int, columns: int, *, poison: float = float("nan")) -> None:
        self.backend = backend
        self.q = backend.adopt(torch.full((rows, 4, 64), poison, dtype=backend.dtype))
        self.table = backend.adopt(torch.full((rows, columns), -1, dtype=torch.int32))
        self.seq_lens = backend.adopt(torch.zeros(rows, dtype=torch.int32))
        self.out = backend.adopt(torch.full((rows, 4, 64), poison, dtype=backend.dtype))
        self.lse = backend.adopt(torch.full((rows, 4), poison))

    def replay(self, problem: Problem, **options: object) -> None:
        """Puts a problem in the first rows, calls, and compares; rows behind it are padding."""
        rows = len(problem.q_lens)
        paged = page(problem, block_size=64)
        columns = min(paged.block_table.shape[1], self.table.shape[1])
        self.q[:rows] = self.backend.adopt(problem.q)
        self.table[:rows, :columns] = self.backend.adopt(paged.block_table[:, :columns])
        self.seq_lens.zero_()
        self.seq_lens[:rows] = self.backend.adopt(paged.seq_lens)
        caches = self.backend.adopt_all(paged.k_cache, paged.v_cache)
        result = self.backend.ops.paged_decode(
            self.q, *caches, self.table, self.seq_lens, out=self.out, lse=self.lse, **options
        )
        assert result[0].data_ptr() == self.out.data_ptr()
        assert result[1].data_ptr() == self.lse.data_ptr()
        assert_output(self.out[:rows].cpu(), problem)
        assert_lse(self.lse[:rows].cpu(), problem)
        assert bool((self.out[rows:] == 0).all())
        assert bool(torch.isneginf(self.lse[rows:]).all())


@pytest.mark.parametrize("partition_size", [None, 512])
def test_case_19_first_called_at_length_1_then_at_40000(backend: Backend, partition_size: int | None) -> None:
    buffers = Replayed(backend, rows=2, columns=640)
    for length in (1, 40_000, 513, 1):
        problem = make_problem([1, 1], [length, 1 + length // 2], seed=length)
        buffers.replay(problem, partition_size=partition_size)


@pytest.mark.parametrize("partition_size", PARTITIONS)
@pytest.mark.parametrize("q_len", [1, 3])
def test_case_20_lengths_around_every_partition_limit(
    backend: Backend, partition_size: int, q_len: int
) -> None:
    lengths = [n * partition_size + d for n in (1, 2, 3) for d in (-1, 0, 1)]
    problem = make_problem([q_len] * len(lengths), lengths, heads=(2, 1), sharpness=3)
    paged = page(problem)
    check_decode(backend, problem, paged, partition_size=partition_size)
    check_prefill(backend, problem, paged, partition_size=partition_size)


@pytest.mark.parametrize("length", [131_071, 131_072, 131_073])
def test_case_20_lengths_around_131072(backend: Backend, length: int) -> None:
    problem = make_problem([1], [length], heads=(2, 1), sharpness=4, seed=20)
    check_decode(backend, problem, page(problem, block_size=128))


def test_case_20_131072_in_partitions_of_512(backend: Backend) -> None:
    problem = make_problem([1], [131_072], heads=(2, 1), sharpness=4, seed=20)
    check_decode(backend, problem, page(problem, block_size=128), partition_size=512)


@pytest.mark.parametrize("partition_size", [None, 1, 16])
def test_case_21_sequences_shorter_than_the_number_of_splits(
    backend: Backend, partition_size: int | None
) -> None:
    problem = make_problem([1] * 5, [3, 2, 1500, 0, 17], sharpness=3)
    paged = page(problem)
    check_decode(backend, problem, paged, partition_size=partition_size)
    check_prefill(backend, problem, paged, partition_size=partition_size)


def test_case_22_padded_batch_of_100_real_rows_in_112(backend: Backend) -> None:
    buffers = Replayed(backend, rows=112, columns=8)
    lengths = [1 + 37 * row % 300 for row in range(100)]
    buffers.replay(make_problem([1] * 100, lengths, seed=22))


def test_case_23_buffers_of_16_requests_reused_for_3(backend: Backend) -> None:
    buffers = Replayed(backend, rows=16, columns=20)
    for rows, scale in ((16, 70), (3, 30), (16, 11), (1, 700)):
        lengths = [1 + scale * row for row in range(1, rows + 1)]
        for partition_size in (None, 32):
            problem = make_problem([1] * rows, lengths, seed=rows, sharpness=3)
            buffers.replay(problem, partition_size=partition_size)
