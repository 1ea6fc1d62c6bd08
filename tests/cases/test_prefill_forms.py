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
from support.paging import page, ragged_indices
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


def test_any_byte_but_0_shows_a_key(backend: Backend) -> None:
    problem = make_problem([70], [133], mask_density=0.5)
    assert problem.masks is not None
    shown = problem.masks[0]
    values = torch.tensor([1, 2, 128, 255], dtype=torch.uint8).repeat(shown.numel() // 4 + 1)
    bytes_ = values[: shown.numel()].view_as(shown) * shown
    out, _ = run(backend, "prefix_prefill", replace(problem, masks=[bytes_]), page(problem))
    assert_output(out, problem)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("with_end", [True, False])
def test_masks_lie_where_their_offsets_say(
    backend: Backend, index_dtype: torch.dtype, with_end: bool
) -> None:
    """In any order, with bytes of nobody between them."""
    problem = make_problem([5, 40, 3], [40, 133, 9], mask_density=0.5)
    assert problem.masks is not None
    flat = torch.ones(6000, dtype=torch.bool)
    starts = [5700, 300, 5650]
    for start, mask in zip(starts, problem.masks, strict=True):
        flat[start : start + mask.numel()] = mask.flatten()
    if with_end:
        starts.append(6000)
    paged = page(problem)
    arguments = (paged.k_cache, paged.v_cache, paged.block_table, problem.cu_seqlens_q, paged.seq_lens)
    out = backend.ops.prefix_prefill(
        *(backend.adopt(x) for x in (problem.q, *arguments)),
        custom_mask=backend.adopt(flat),
        mask_indptr=backend.adopt(torch.tensor(starts, dtype=index_dtype)),
    )
    assert isinstance(out, torch.Tensor)
    assert_output(out.cpu(), problem)


def spread(tensor: torch.Tensor, backend: Backend) -> torch.Tensor:
    """The same numbers as every third of a larger tensor, along the last axis."""
    wide = torch.full((*tensor.shape, 3), -7, dtype=tensor.dtype)
    wide[..., 1] = tensor
    return backend.adopt(wide)[..., 1]


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_arrays_of_indices_may_have_strides(backend: Backend, index_dtype: torch.dtype) -> None:
    problem = make_problem([5, 40], [40, 133], mask_density=0.5)
    assert problem.masks is not None
    paged = page(problem, index_dtype=index_dtype)
    offsets, mask_ends = (
        torch.tensor([0, *itertools.accumulate(sizes)], dtype=index_dtype)
        for sizes in (problem.q_lens, [mask.numel() for mask in problem.masks])
    )
    mask = torch.cat([mask.flatten() for mask in problem.masks])
    extras = {"custom_mask": spread(mask, backend), "mask_indptr": spread(mask_ends, backend)}
    q, k_cache, v_cache = (backend.adopt(x) for x in (problem.q, paged.k_cache, paged.v_cache))
    indices = [spread(x, backend) for x in (paged.block_table, offsets, paged.seq_lens)]
    for size in (None, 32):
        out = backend.ops.prefix_prefill(q, k_cache, v_cache, *indices, partition_size=size, **extras)
        assert isinstance(out, torch.Tensor)
        assert_output(out.cpu(), problem)

    ragged = page(problem, block_size=1, index_dtype=index_dtype)
    slots = [backend.adopt(x.select(1, 0)) for x in (ragged.k_cache, ragged.v_cache)]
    ends = torch.tensor([0, *itertools.accumulate(problem.kv_lens)], dtype=index_dtype)
    indices = [spread(x, backend) for x in (offsets, ends, ragged_indices(ragged))]
    out = backend.ops.ragged_prefill(q, *slots, *indices, **extras)
    assert isinstance(out, torch.Tensor)
    assert_output(out.cpu(), problem)


@pytest.mark.parametrize("part", ["key", "value"])
def test_strides_past_2_to_the_31(backend: Backend, part: str) -> None:
    """A pool whose pages are far apart: all keys lie in page 0, the next one nobody could allocate."""
    problem = make_problem([20], [50], heads=(4, 2), head_size=64)
    paged = page(problem, block_size=64)
    own = int(paged.block_table[0, 0])
    caches = {"key": backend.adopt(paged.k_cache), "value": backend.adopt(paged.v_cache)}
    caches = {name: cache[own : own + 1] for name, cache in caches.items()}
    near = caches[part]
    caches[part] = near.as_strided(near.shape, ((1 << 31) + 64, *near.stride()[1:]), near.storage_offset())
    table = backend.adopt(torch.zeros(1, 1, dtype=torch.int32))
    offsets, lengths = backend.adopt(problem.cu_seqlens_q), backend.adopt(paged.seq_lens)
    out = backend.ops.prefix_prefill(backend.adopt(problem.q), *caches.values(), table, offsets, lengths)
    assert isinstance(out, torch.Tensor)
    assert_output(out.cpu(), problem)


@pytest.mark.parametrize(
    ("scale", "k_scale"),
    [(0.0, None), (1e-30, 1e-30), (-1e-30, 1e-30), (None, torch.tensor([0.0]))],
    ids=["zero", "underflow", "negative underflow", "zero on the device"],
)
@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
def test_a_factor_that_vanishes_weighs_all_keys_alike(
    backend: Backend, scale: float | None, k_scale: float | torch.Tensor | None, operator: str
) -> None:
    dtype = torch.float16
    stored = dtype if k_scale is None else FP8[0]
    rules = Rules(scale=scale, window=30)
    problem = make_problem([3, 3], [100, 40], dtype=dtype, cache_dtype=stored, k_scale=k_scale, rules=rules)
    check(backend, operator, problem, page(problem))
    check(backend, operator, problem, page(problem), partition_size=32)


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


@pytest.mark.parametrize("cache_dtype", [torch.float16, torch.float32])
def test_fp8_queries_give_the_type_of_the_cache(backend: Backend, cache_dtype: torch.dtype) -> None:
    problem = make_problem([9], [20], dtype=torch.float16, cache_dtype=cache_dtype, q_dtype=FP8[0])
    assert problem.dtype is cache_dtype
    check_prefill(backend, problem, page(problem))


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
