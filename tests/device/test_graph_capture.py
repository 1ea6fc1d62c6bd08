"""Cases 19 and 22 for real: a captured decode graph, replayed with other lengths and batches."""

from __future__ import annotations

import pytest
import torch
from support.check import assert_lse, assert_output
from support.paging import page, ragged_indices
from support.problem import Problem, cu_seqlens, make_problem

from hygon_backend import counters, ops

BLOCK_SIZE = 64
COLUMNS = 640  # 40,960 tokens


class CapturedDecode:
    """One decode call captured at length 1; its pool and buffers are refilled before each replay."""

    def __init__(self, rows: int, num_blocks: int, partition_size: int | None) -> None:
        def on_card(*shape: int, dtype: torch.dtype, value: float) -> torch.Tensor:
            return torch.full(shape, value, dtype=dtype, device="cuda")

        self.rows = rows
        self.q = on_card(rows, 4, 64, dtype=torch.bfloat16, value=0.0)
        self.k_cache = on_card(num_blocks, BLOCK_SIZE, 2, 64, dtype=torch.bfloat16, value=float("nan"))
        self.v_cache = on_card(num_blocks, BLOCK_SIZE, 2, 64, dtype=torch.bfloat16, value=float("nan"))
        self.table = on_card(rows, COLUMNS, dtype=torch.int32, value=-1)
        self.seq_lens = on_card(rows, dtype=torch.int32, value=1)
        self.out = on_card(rows, 4, 64, dtype=torch.bfloat16, value=float("nan"))
        self.lse = on_card(rows, 4, dtype=torch.float32, value=float("nan"))
        self.table[:, 0] = 0
        self.k_cache[0] = 0
        self.v_cache[0] = 0
        self._call(partition_size)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._call(partition_size)

    def _call(self, partition_size: int | None) -> None:
        ops.paged_decode(
            self.q, self.k_cache, self.v_cache, self.table, self.seq_lens,
            partition_size=partition_size, out=self.out, lse=self.lse,
        )  # fmt: skip

    def replay(self, problem: Problem) -> None:
        """Replays with a problem in the first rows; the rows behind it are padding of length 0."""
        count = len(problem.q_lens)
        paged = page(problem, block_size=BLOCK_SIZE)
        assert paged.k_cache.shape[0] <= self.k_cache.shape[0]
        used = paged.k_cache.shape[0]
        self.k_cache[:used].copy_(paged.k_cache)
        self.v_cache[:used].copy_(paged.v_cache)
        self.q[:count].copy_(problem.q)
        columns = min(paged.block_table.shape[1], COLUMNS)
        self.table.fill_(-1)
        self.table[:count, :columns].copy_(paged.block_table[:, :columns])
        self.seq_lens.zero_()
        self.seq_lens[:count].copy_(paged.seq_lens)
        self.out.fill_(float("nan"))
        self.lse.fill_(float("nan"))
        self.graph.replay()
        assert_output(self.out[:count].cpu(), problem)
        assert_lse(self.lse[:count].cpu(), problem)
        assert bool((self.out[count:] == 0).all())
        assert bool(torch.isneginf(self.lse[count:]).all())


@pytest.mark.parametrize("partition_size", [None, 512])
def test_captured_at_length_1_and_replayed_at_up_to_40000(partition_size: int | None) -> None:
    before = counters.snapshot().get("paged_decode[native]", 0)
    captured = CapturedDecode(rows=2, num_blocks=1000, partition_size=partition_size)
    for length in (1, 2, 511, 512, 513, 5_000, 40_000, 40_960, 1):
        problem = make_problem([1, 1], [length, 1 + length // 2], dtype=torch.bfloat16, seed=length)
        captured.replay(problem)
    assert counters.snapshot()["paged_decode[native]"] == before + 2, "replays must not call again"


def test_a_graph_of_112_rows_serves_100_and_then_3() -> None:
    captured = CapturedDecode(rows=112, num_blocks=1500, partition_size=None)
    for count in (100, 3, 112, 1):
        lengths = [1 + 37 * row % 700 for row in range(count)]
        captured.replay(make_problem([1] * count, lengths, dtype=torch.bfloat16, seed=count))


@pytest.mark.parametrize("partition_size", [None, 128])
def test_a_captured_prefill_serves_other_lengths_and_offsets(partition_size: int | None) -> None:
    """Captured with all rows in one sequence; replayed with several, and with padding behind them."""
    tokens, seqs, columns, num_blocks = 256, 4, 64, 300

    def on_card(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device="cuda")

    q, out = (on_card(tokens, 4, 64, dtype=torch.bfloat16) for _ in range(2))
    k_cache, v_cache = (on_card(num_blocks, BLOCK_SIZE, 2, 64, dtype=torch.bfloat16) for _ in range(2))
    table, offsets = on_card(seqs, columns, dtype=torch.int32), on_card(seqs + 1, dtype=torch.int32)
    seq_lens = on_card(seqs, dtype=torch.int32)
    lse = on_card(tokens, 4, dtype=torch.float32)
    offsets[1:] = tokens
    seq_lens[0] = tokens

    def call() -> None:
        ops.prefix_prefill(
            q, k_cache, v_cache, table, offsets, seq_lens, partition_size=partition_size, out=out, lse=lse
        )

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for q_lens, kv_lens in (([256], [4000]), ([100, 3, 1], [700, 3, 4096]), ([1, 1, 1, 1], [1, 2, 64, 65])):
        problem = make_problem(q_lens, kv_lens, dtype=torch.bfloat16)
        paged = page(problem, block_size=BLOCK_SIZE)
        used, count, rows = paged.k_cache.shape[0], len(q_lens), sum(q_lens)
        k_cache[:used].copy_(paged.k_cache)
        v_cache[:used].copy_(paged.v_cache)
        table.fill_(-1)
        width = min(paged.block_table.shape[1], columns)
        table[:count, :width].copy_(paged.block_table[:, :width])
        seq_lens.zero_()
        seq_lens[:count].copy_(paged.seq_lens)
        offsets.fill_(rows)
        offsets[: count + 1].copy_(problem.cu_seqlens_q)
        q.fill_(float("nan"))
        q[:rows].copy_(problem.q)
        out.fill_(float("nan"))
        lse.fill_(float("nan"))
        graph.replay()
        assert_output(out[:rows].cpu(), problem)
        assert_lse(lse[:rows].cpu(), problem)
        assert bool((out[rows:] == 0).all())
        assert bool(torch.isneginf(lse[rows:]).all())


def test_a_captured_ragged_prefill_reads_masks_and_scales_anew() -> None:
    """Slots, offsets, mask and scales lie in buffers that are refilled before each replay."""
    tokens, seqs, slots, mask_bytes = 128, 3, 6000, 1 << 18

    def on_card(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device="cuda")

    q, out = (on_card(tokens, 4, 64, dtype=torch.bfloat16) for _ in range(2))
    k_buffer, v_buffer = (on_card(slots, 2, 64, dtype=torch.float8_e4m3fn) for _ in range(2))
    qo_indptr, kv_indptr, mask_indptr = (on_card(seqs + 1, dtype=torch.int32) for _ in range(3))
    kv_indices, mask = on_card(slots, dtype=torch.int64), on_card(mask_bytes, dtype=torch.bool)
    k_scale, v_scale = on_card(2, dtype=torch.float32), on_card(1, dtype=torch.float32)

    def call() -> None:
        ops.ragged_prefill(
            q, k_buffer, v_buffer, qo_indptr, kv_indptr, kv_indices, k_scale=k_scale, v_scale=v_scale,
            custom_mask=mask, mask_indptr=mask_indptr, out=out,
        )  # fmt: skip

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for q_lens, kv_lens in (([128], [1500]), ([4, 0, 7], [700, 9, 7]), ([60, 1, 60], [1000, 1200, 64])):
        count, rows, keys = len(q_lens), sum(q_lens), sum(kv_lens)
        scales = {"k_scale": torch.rand(2) + 0.5, "v_scale": torch.rand(1) + 0.5}
        problem = make_problem(
            q_lens, kv_lens, dtype=torch.bfloat16, cache_dtype=torch.float8_e4m3fn, mask_density=0.5, **scales
        )
        paged = page(problem, block_size=1)
        used = paged.k_cache.shape[0]
        k_buffer[:used].view(torch.uint8).copy_(paged.k_cache[:, 0].view(torch.uint8))
        v_buffer[:used].view(torch.uint8).copy_(paged.v_cache[:, 0].view(torch.uint8))
        kv_indices.fill_(-1)
        kv_indices[:keys].copy_(ragged_indices(paged)[:keys])
        assert problem.masks is not None
        ends = cu_seqlens([item.numel() for item in problem.masks])
        mask[: int(ends[-1])].copy_(torch.cat([item.flatten() for item in problem.masks]))
        for buffer, values in (
            (qo_indptr, problem.cu_seqlens_q),
            (kv_indptr, cu_seqlens(kv_lens)),
            (mask_indptr, ends),
        ):
            buffer.fill_(values[-1])
            buffer[: count + 1].copy_(values)
        k_scale.copy_(scales["k_scale"])
        v_scale.copy_(scales["v_scale"])
        q[:rows].copy_(problem.q)
        out.fill_(float("nan"))
        graph.replay()
        assert_output(out[:rows].cpu(), problem)
        assert bool((out[rows:] == 0).all())
