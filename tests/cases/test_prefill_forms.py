"""What prefill has beyond decode: custom masks, fp8 queries, ragged slots, any split into chunks."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.backends import Backend
from support.check import assert_lse, assert_output, check, check_prefill, run
from support.draws import FP8
from support.paging import page
from support.problem import Problem, Rules, make_problem

from hygon_backend import reference
from hygon_backend.kv_layout import KVLayout

TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
"""A draft tree: tokens 1 and 2 follow token 0, and token 3 follows token 1."""


@pytest.mark.parametrize("prefix", [0, 1, 63, 64, 300])
def test_a_draft_tree_behind_a_prefix(backend: Backend, prefix: int) -> None:
    problem = make_problem([4], [prefix + 4], head_size=128, sharpness=4)
    # The prefix's columns are not looked at.
    mask = torch.cat([torch.zeros(4, prefix, dtype=torch.bool), TREE], dim=1)
    problem = replace(problem, masks=[mask])
    check_prefill(backend, problem, page(problem))


def test_a_tree_gives_each_branch_what_it_gets_as_a_sequence(backend: Backend) -> None:
    problem = replace(make_problem([4], [104]), masks=[torch.cat([torch.ones(4, 100).bool(), TREE], dim=1)])
    out, _ = run(backend, "prefix_prefill", problem, page(problem))
    branch = [0, 1, 3]
    keys = [*range(100), *(100 + token for token in branch)]
    alone = Problem(problem.q[branch], [3], [problem.k[0][keys]], [problem.v[0][keys]], Rules())
    assert_output(out[branch], alone)


@pytest.mark.parametrize("density", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "rules", [Rules(), Rules(window=20), Rules(softcap=10.0)], ids=["plain", "window", "cap"]
)
@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.uint8])
def test_random_masks_with_an_offset_for_each_request(
    backend: Backend, density: float, rules: Rules, mask_dtype: torch.dtype
) -> None:
    problem = make_problem([5, 0, 70, 3], [40, 9, 133, 2], rules=rules, mask_density=density)
    assert problem.masks is not None
    problem = replace(problem, masks=[mask.to(mask_dtype) for mask in problem.masks])
    check_prefill(backend, problem, page(problem), partition_size=32)
    check_prefill(backend, problem, page(problem))


def test_a_full_mask_is_no_mask_among_the_new_tokens(backend: Backend) -> None:
    problem = make_problem([30], [90], mask_density=1.0)
    out, _ = run(backend, "prefix_prefill", problem, page(problem))
    assert_output(out, replace(problem, masks=None, rules=Rules(causal=False)))


@pytest.mark.parametrize("q_dtype", FP8)
@pytest.mark.parametrize("cache_dtype", [torch.bfloat16, *FP8])
@pytest.mark.parametrize("q_scale", [None, 0.25, torch.tensor([2.0])])
def test_fp8_queries(
    backend: Backend,
    q_dtype: torch.dtype,
    cache_dtype: torch.dtype,
    q_scale: float | torch.Tensor | None,
) -> None:
    problem = make_problem(
        [40, 3],
        [150, 70],
        heads=(6, 2),
        head_size=80,
        dtype=torch.bfloat16,
        cache_dtype=cache_dtype,
        q_dtype=q_dtype,
        q_scale=q_scale,
        k_scale=0.5 if cache_dtype in FP8 else None,
        sharpness=3,
    )
    for layout in (KVLayout.BSHD, KVLayout.BHSD_VT):
        check_prefill(backend, problem, page(problem, layout))


def test_fp8_queries_take_the_type_of_the_given_output(backend: Backend) -> None:
    problem = make_problem([9], [20], dtype=torch.float16, cache_dtype=FP8[0], q_dtype=FP8[0], q_scale=0.5)
    out = backend.adopt(torch.empty(9, 4, 64, dtype=torch.float16))
    run(backend, "prefix_prefill", problem, page(problem), out=out)
    exact = problem.exact.out
    assert (out.cpu().double() - exact).abs().max() <= 4 * torch.finfo(torch.float16).eps * exact.abs().max()


@pytest.mark.parametrize(
    "rules", [Rules(), Rules(causal=False), Rules(window=30)], ids=["plain", "all", "window"]
)
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_ragged_slots_give_what_a_block_table_gives(
    backend: Backend, rules: Rules, index_dtype: torch.dtype
) -> None:
    problem = make_problem([20, 0, 1, 100, 7], [33, 5, 70, 150, 0], heads=(8, 2), head_size=128, rules=rules)
    paged = page(problem, block_size=1, index_dtype=index_dtype)
    check(backend, "ragged_prefill", problem, paged)
    check(backend, "ragged_prefill", problem, paged, partition_size=32)


def test_ragged_slots_with_a_mask_and_fp8(backend: Backend) -> None:
    problem = make_problem(
        [6, 4], [60, 4], dtype=torch.bfloat16, cache_dtype=FP8[0], k_scale=0.5, v_scale=2.0, mask_density=0.5
    )
    check(backend, "ragged_prefill", problem, page(problem, block_size=1))


@given(data=st.data())
def test_any_split_into_chunks_equals_the_whole(backend: Backend, data: st.DataObject) -> None:
    """Chunks are off page and tile; the cache grows by one chunk a call."""
    length = data.draw(st.integers(1, 300))
    block_size = data.draw(st.sampled_from([1, 16, 48, 64]))
    cuts = data.draw(st.sets(st.integers(1, max(length - 1, 1)), max_size=6))
    window = data.draw(st.one_of(st.none(), st.integers(1, 100)))
    limits = [0, *sorted(cut for cut in cuts if cut < length), length]
    dtype = torch.bfloat16 if backend.dtype is not torch.float32 else torch.float32
    rules = Rules(window=window)
    whole = make_problem(
        [length], [length], heads=(6, 2), head_size=64, dtype=dtype, rules=rules, sharpness=4
    )
    outs, lses = [], []
    for start, stop in itertools.pairwise(limits):
        chunk = Problem(whole.q[start:stop], [stop - start], [whole.k[0][:stop]], [whole.v[0][:stop]], rules)
        out, lse = run(backend, "prefix_prefill", chunk, page(chunk, block_size=block_size), return_lse=True)
        assert lse is not None
        outs.append(out)
        lses.append(lse)
    assert_output(torch.cat(outs), whole, ulps=2)
    assert_lse(torch.cat(lses), whole)


def test_the_reference_takes_masks_and_query_scales() -> None:
    problem = make_problem([5, 3], [20, 3], q_scale=0.5, mask_density=0.5)
    paged = page(problem)
    assert problem.masks is not None
    flat = torch.cat([torch.ones(7).bool(), *(mask.flatten() for mask in problem.masks)])
    out, lse = reference.prefix_prefill(
        problem.q,
        paged.k_cache,
        paged.v_cache,
        paged.block_table,
        problem.cu_seqlens_q,
        paged.seq_lens,
        q_scale=0.5,
        custom_mask=flat,
        mask_indptr=torch.tensor([7, 107]),
    )
    torch.testing.assert_close(out, problem.exact.out)
    torch.testing.assert_close(lse, problem.exact.lse)
