"""Cases 1 to 6: offsets past 32 bits and more work items than one grid axis holds."""

import math

import pytest
import torch
from support.backends import Backend
from support.big_memory import HugePool
from support.bits import same_bits
from support.check import check_decode, check_prefill
from support.paging import in_layout
from support.problem import Problem, make_problem

from hygon_backend.kv_layout import KVLayout

LAYOUTS = list(KVLayout)

POOLS = {
    # Keys and values interleaved: 32,768 elements a page, so page 65,536 starts at element 2^31.
    "case_01_pool_over_2_31_elements": HugePool(70_000, 32_768, 16, 8, (3, 65_535, 65_536, 69_999, 66_001)),
    "case_02_page_stride_480_x_576": HugePool(7_800, 480 * 576, 64, 2, (7_766, 7_767, 7_768, 12, 7_799)),
    "case_03_page_size_1_over_4_gb_of_keys": HugePool(
        2_200_000, 2_048, 1, 8, (0, 1_048_575, 1_048_576, 2_097_151, 2_097_152, 2_199_999, 77)
    ),
    "case_04_layer_packed_pool": HugePool(2_100, 1_039_680, 16, 8, (2_065, 2_066, 2_067, 1, 2_099)),
}

pools = pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS.keys())
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def problem_for(pool: HugePool, q_len: int) -> Problem:
    return make_problem(
        [q_len],
        [pool.num_tokens],
        heads=(pool.num_kv_heads * 2, pool.num_kv_heads),
        head_size=128,
        dtype=torch.float16,
    )


@pools
def test_the_pools_of_cases_01_to_04_overflow_32_bits(pool: HugePool) -> None:
    starts = [block * pool.stride for block in pool.block_ids]
    assert max(starts) > 2**31
    assert min(starts) < 2**31
    assert max(starts) * torch.float16.itemsize > 2**32


@pools
@layouts
@pytest.mark.parametrize("q_len", [1, 4])
def test_decode_reads_past_2_31_elements(
    backend: Backend, pool: HugePool, layout: KVLayout, q_len: int
) -> None:
    problem = problem_for(pool, q_len)
    check_decode(backend, problem, pool.page(problem, layout), validate=True)


@pools
@layouts
def test_prefill_reads_past_2_31_elements(backend: Backend, pool: HugePool, layout: KVLayout) -> None:
    problem = problem_for(pool, 5)
    check_prefill(backend, problem, pool.page(problem, layout), validate=True)


@pools
@layouts
def test_case_06_writes_land_past_2_31_elements(backend: Backend, pool: HugePool, layout: KVLayout) -> None:
    problem = problem_for(pool, 1)
    want = pool.page(problem, layout)
    k_cache, v_cache = backend.adopt_all(*pool.caches(layout))
    token = torch.arange(pool.num_tokens)
    slots = want.block_table[0].long()[token // pool.block_size] * pool.block_size + token % pool.block_size
    tokens = [backend.adopt(x[0]) for x in (problem.k, problem.v)]
    backend.ops.write_kv(*tokens, k_cache, v_cache, backend.adopt(slots), layout=layout, validate=True)
    for block in pool.block_ids:
        assert same_bits(k_cache[block].cpu(), want.k_cache[block])
        assert same_bits(v_cache[block].cpu(), want.v_cache[block])
        # Where the write would have gone with a byte offset of 32 bits.
        alias = block * pool.stride % 2**31 // pool.stride
        if alias not in pool.block_ids:
            assert not k_cache[alias].any()


@pools
@layouts
def test_gathers_reach_past_2_31_elements(backend: Backend, pool: HugePool, layout: KVLayout) -> None:
    problem = problem_for(pool, 1)
    paged = pool.page(problem, layout)
    caches = backend.adopt_all(paged.k_cache, paged.v_cache)
    arrays = [backend.adopt(x) for x in (paged.block_table, paged.seq_lens)]
    keys, values, _ = backend.ops.gather_kv(*caches, *arrays, layout=layout, validate=True)
    assert same_bits(keys.cpu(), problem.k[0])
    assert same_bits(values.cpu(), problem.v[0])


@pools
@layouts
def test_case_06_copies_reach_past_2_31_elements(backend: Backend, pool: HugePool, layout: KVLayout) -> None:
    low, high = min(pool.block_ids), max(pool.block_ids)
    k_cache, v_cache = backend.adopt_all(*pool.caches(layout))
    k_cache[low], v_cache[low] = 1.5, -2.0
    free = high - 1
    backend.ops.copy_blocks([k_cache, v_cache], backend.adopt(torch.tensor([[low, high]])), validate=True)
    backend.ops.copy_blocks([k_cache, v_cache], backend.adopt(torch.tensor([[high, free]])), validate=True)
    for block in (high, free):
        assert bool((k_cache[block] == 1.5).all())
        assert bool((v_cache[block] == -2.0).all())


def uniform_batch(num_seqs: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """q `[S, 2, 32]` and one-head keys and values `[S, 2, 1, 32]`: two tokens a sequence, one page each."""
    generator = torch.Generator().manual_seed(5)
    shapes = [(num_seqs, 2, 32), (num_seqs, 2, 1, 32), (num_seqs, 2, 1, 32)]
    return tuple(torch.randn(*shape, generator=generator).to(dtype) for shape in shapes)


def expected_for(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Exact answer of `uniform_batch`, all sequences at once."""
    logits = torch.einsum("shd,std->sht", q.double(), k[:, :, 0].double()) / math.sqrt(32)
    return torch.einsum("sht,std->shd", logits.softmax(2), v[:, :, 0].double())


def tolerance(dtype: torch.dtype) -> float:
    """Rounding of outputs and weights near 4, the largest of the drawn values."""
    return 4 * torch.finfo(dtype).eps + 2e-5


@pytest.mark.parametrize("layout", ["bshd", "bhsd_vt"])
def test_case_05_more_than_65535_sequences_in_one_decode(backend: Backend, layout: str) -> None:
    num_seqs = 66_000
    q, k, v = uniform_batch(num_seqs, backend.dtype)
    order = torch.randperm(num_seqs, generator=torch.Generator().manual_seed(6))
    caches = [torch.empty_like(x) for x in (k, v)]
    for cache, x in zip(caches, (k, v), strict=True):
        cache[order] = x
    cut = [in_layout(c, KVLayout(layout), part) for c, part in zip(caches, ("key", "value"), strict=True)]
    seq_lens = torch.full((num_seqs,), 2, dtype=torch.int32)
    arguments = [backend.adopt(x) for x in (q, *cut, order[:, None], seq_lens)]
    out = backend.ops.paged_decode(*arguments, layout=layout)
    torch.testing.assert_close(out.cpu().double(), expected_for(q, k, v), atol=tolerance(q.dtype), rtol=0)


@pytest.mark.full
def test_case_05_more_than_65535_sequences_in_one_prefill(backend: Backend) -> None:
    num_seqs = 66_000
    q, k, v = uniform_batch(num_seqs, backend.dtype)
    table, seq_lens = torch.arange(num_seqs)[:, None], torch.full((num_seqs,), 2, dtype=torch.int32)
    offsets = torch.arange(num_seqs + 1)
    arguments = [backend.adopt(x) for x in (q, k, v, table, offsets, seq_lens)]
    out = backend.ops.prefix_prefill(*arguments)
    torch.testing.assert_close(out.cpu().double(), expected_for(q, k, v), atol=tolerance(q.dtype), rtol=0)


def test_case_05_more_than_65535_tokens_in_one_write(backend: Backend) -> None:
    num_tokens = 66_000
    data = torch.arange(num_tokens, dtype=torch.float32)[:, None, None].expand(-1, 1, 8)
    slots = torch.randperm(num_tokens, generator=torch.Generator().manual_seed(7))
    caches = [backend.adopt(torch.zeros(num_tokens // 16, 16, 1, 8)) for _ in range(2)]
    backend.ops.write_kv(backend.adopt(data), backend.adopt(data + 0.5), *caches, backend.adopt(slots))
    for cache, tokens in zip(caches, (data, data + 0.5), strict=True):
        assert torch.equal(cache.cpu().flatten(0, 1)[slots], tokens)
