"""Cases 7 to 13: bytes past a sequence's end and table entries past its last page are never used.

`support.paging.page` fills both with poison, so most tests here only pick the shapes at which it hurt
others.
"""

import pytest
import torch
from support.backends import Backend
from support.check import check_decode, check_prefill, run
from support.paging import STALE_IDS, PoolStyle, page
from support.problem import make_problem

from hygon_backend.errors import InvalidArgumentError
from hygon_backend.kv_layout import KVLayout

layouts = pytest.mark.parametrize("layout", list(KVLayout), ids=str)
poisons = pytest.mark.parametrize("poison", ["nan", "large"])


@layouts
@poisons
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("context", [4090, 4096])
def test_case_07_nan_in_the_v_tail_of_the_last_page(
    backend: Backend, layout: KVLayout, poison: str, dtype: torch.dtype, context: int
) -> None:
    problem = make_problem([1], [context], heads=(8, 2), head_size=128, dtype=dtype)
    check_decode(backend, problem, page(problem, layout, 16, style=PoolStyle(poison=poison)))


@layouts
@pytest.mark.parametrize("context", [4090, 4096])
def test_case_07_nan_in_the_v_tail_prefill(backend: Backend, layout: KVLayout, context: int) -> None:
    problem = make_problem([10], [context], heads=(8, 2), head_size=128, dtype=torch.bfloat16)
    check_prefill(backend, problem, page(problem, layout, 16))


@layouts
@poisons
@pytest.mark.parametrize(
    ("lengths", "block_size"), [([1, 3], 3), ([32, 64, 96, 48], 128)], ids=["of 3", "of 128"]
)
def test_case_08_poison_past_seq_len(
    backend: Backend, layout: KVLayout, poison: str, lengths: list[int], block_size: int
) -> None:
    style = PoolStyle(poison=poison)
    for q_len in (1, 2):
        problem = make_problem([q_len] * len(lengths), lengths, seed=8)
        paged = page(problem, layout, block_size, style=style, spare_columns=0)
        check_decode(backend, problem, paged)
        check_prefill(backend, problem, paged)


@layouts
@pytest.mark.parametrize("q_len", [1, 13])
def test_case_09_page_of_4_and_13_keys(backend: Backend, layout: KVLayout, q_len: int) -> None:
    problem = make_problem([q_len], [13], seed=9)
    paged = page(problem, layout, 4)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


@layouts
def test_case_10_table_exactly_as_wide_as_needed(backend: Backend, layout: KVLayout) -> None:
    """The table is a slice: right behind its last column lie ids that lead out of the pool."""
    problem = make_problem([2, 2, 2], [64, 33, 49], seed=10)
    paged = page(problem, layout, 16, spare_columns=0)
    assert paged.block_table.shape == (3, 4)
    assert paged.block_table.stride(0) > 4
    check_decode(backend, problem, paged, validate=True)
    check_prefill(backend, problem, paged, validate=True)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_case_11_shrunk_batch_keeps_stale_ids_in_padded_rows(
    backend: Backend, index_dtype: torch.dtype
) -> None:
    before = make_problem([1] * 5, [40, 70, 33, 64, 90], seed=11)
    paged = page(before, block_size=16, index_dtype=index_dtype)
    check_decode(backend, before, paged)
    # Rows 2 to 4 ended; their lengths are 0 and their table rows are as they were.
    after = make_problem([1] * 5, [40, 70, 0, 0, 0], seed=11)
    shrunk = page(after, block_size=16, index_dtype=index_dtype)
    shrunk.block_table[2:, :6] = paged.block_table[2:, :6]
    check_decode(backend, after, shrunk, validate=True)
    check_prefill(backend, after, shrunk, validate=True)


@pytest.mark.parametrize("stale", STALE_IDS)
@pytest.mark.parametrize("q_len", [1, 3])
def test_case_12_padded_row_of_length_0_with_unusable_ids(backend: Backend, stale: int, q_len: int) -> None:
    problem = make_problem([q_len] * 3, [0, 20, 0], seed=12)
    paged = page(problem, block_size=16)
    paged.block_table[0], paged.block_table[2] = stale, stale
    check_decode(backend, problem, paged, validate=True)
    check_prefill(backend, problem, paged, validate=True)


def test_case_12_a_batch_of_padding_only(backend: Backend) -> None:
    problem = make_problem([1, 1], [0, 0])
    paged = page(problem, spare_columns=1)
    check_decode(backend, problem, paged, validate=True)
    check_prefill(backend, problem, paged, validate=True)


@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
@pytest.mark.parametrize("bad", ["one past the pool", "negative"])
def test_case_13_page_id_outside_the_pool_is_named(backend: Backend, operator: str, bad: str) -> None:
    problem = make_problem([1, 1], [20, 40])
    paged = page(problem, block_size=16)
    num_blocks = paged.k_cache.shape[0]
    block = num_blocks if bad == "one past the pool" else -1
    paged.block_table[1, 2] = block
    with pytest.raises(InvalidArgumentError) as caught:
        run(backend, operator, problem, paged, validate=True)
    assert str(caught.value) == (
        f"block_table[1, 2] is {block}, but must be a block id from 0 to {num_blocks - 1}"
    )
