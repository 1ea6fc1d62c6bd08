"""Different ways to the same answer: whole and parts, decode and prefill, layouts, buffers."""

import math
from dataclasses import replace

import pytest
import torch
from support.backends import Backend
from support.bits import unchanged
from support.check import ATOL, assert_lse, assert_output, check, check_decode, check_prefill, run
from support.paging import page
from support.problem import Problem, Rules, make_problem

from hygon_backend.kv_layout import KVLayout

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
OPERATORS = ["paged_decode", "prefix_prefill"]
LENGTHS = [1, 40, 300, 257, 64, 700, 16]

operators = pytest.mark.parametrize("operator", OPERATORS)
with_lse = pytest.mark.parametrize("return_lse", [True, False], ids=["lse", "no lse"])


def assert_close(a: torch.Tensor, b: torch.Tensor) -> None:
    """Asserts that two outputs are equal but for the order of additions and the last rounding."""
    allowed = ATOL[a.dtype] + 4 * torch.finfo(a.dtype).eps * b.abs().max().item()
    assert (a.double() - b.double()).abs().max().item() <= allowed


@with_lse
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("q_len", [1, 2, 16])
def test_decode_is_prefill_with_equal_query_lengths(
    backend: Backend, dtype: torch.dtype, q_len: int, return_lse: bool
) -> None:
    problem = make_problem([q_len] * len(LENGTHS), LENGTHS, dtype=dtype, sharpness=3)
    paged = page(problem)
    answers = [run(backend, operator, problem, paged, return_lse=return_lse) for operator in OPERATORS]
    for out, _ in answers:
        assert_output(out, problem)
    assert_close(answers[0][0], answers[1][0])


@with_lse
@pytest.mark.parametrize("sharpness", [1, 8])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("q_len", [1, 5])
def test_near_uniform_and_sharp_logits(
    backend: Backend, dtype: torch.dtype, sharpness: float, q_len: int, return_lse: bool
) -> None:
    problem = make_problem(
        [q_len] * len(LENGTHS), LENGTHS, heads=(8, 2), head_size=128, dtype=dtype, sharpness=sharpness
    )
    paged = page(problem)
    for operator in OPERATORS:
        for partition_size in (None, 64):
            out, lse = run(
                backend, operator, problem, paged, return_lse=return_lse, partition_size=partition_size
            )
            assert_output(out, problem)
            if lse is not None:
                assert_lse(lse, problem)


@operators
@pytest.mark.parametrize("split", [1, 16, 250, 299])
@pytest.mark.parametrize("softcap", [None, 20.0])
def test_merging_two_parts_of_the_keys_equals_the_whole(
    backend: Backend, operator: str, split: int, softcap: float | None
) -> None:
    """The last part is causal, all earlier ones are seen whole."""
    q_len = 1 if operator == "paged_decode" else min(8, 300 - split)
    whole = make_problem([q_len], [300], rules=Rules(softcap=softcap), sharpness=4)
    parts = [
        Problem(whole.q, [q_len], [whole.k[0][keys]], [whole.v[0][keys]], replace(whole.rules, causal=causal))
        for keys, causal in ((slice(0, split), False), (slice(split, 300), True))
    ]
    early, late = (
        run(
            backend,
            "prefix_prefill" if not part.rules.causal else operator,
            part,
            page(part),
            return_lse=True,
        )
        for part in parts
    )
    out, lse = backend.ops.merge_states(*(backend.adopt(x) for x in (*early, *late)))
    assert_output(out.cpu(), whole)
    assert_lse(lse.cpu(), whole)


@operators
@with_lse
def test_layouts_agree(backend: Backend, operator: str, return_lse: bool) -> None:
    """A layout changes where an element lies, not what is computed from it."""
    problem = make_problem([3, 3, 3], [70, 5, 33], dtype=torch.bfloat16)
    outs = [
        run(backend, operator, problem, page(problem, layout), return_lse=return_lse)[0]
        for layout in KVLayout
    ]
    for out in outs:
        assert_close(out, outs[0])


@operators
def test_vendor_layout_codes(backend: Backend, operator: str) -> None:
    problem = make_problem([2, 2], [20, 9])
    for code, layout in ((0, KVLayout.BHSD), (1, KVLayout.BSHD), (2, KVLayout.BSHD)):
        paged = page(problem, layout)
        check(backend, operator, problem, replace(paged, layout=code))
        check(backend, operator, problem, replace(paged, layout=str(layout)))


@pytest.mark.parametrize("partition_size", [None, 32])
@pytest.mark.parametrize(("query", "cache"), [(a, b) for a in FLOATS for b in FLOATS if a is not b])
def test_query_and_cache_of_different_types(
    backend: Backend, query: torch.dtype, cache: torch.dtype, partition_size: int | None
) -> None:
    problem = make_problem([2, 2], [70, 9], dtype=query, cache_dtype=cache)
    paged = page(problem)
    check_decode(backend, problem, paged, partition_size=partition_size)
    check_prefill(backend, problem, paged, partition_size=partition_size)


@operators
@pytest.mark.parametrize("scale", [0.0, -0.3, 1, 0.02])
def test_an_explicit_scale(backend: Backend, operator: str, scale: float) -> None:
    """The last sequence is a square: an implementation may have a way of its own for that."""
    problem = make_problem([3, 3, 3], [70, 9, 3], rules=Rules(scale=scale))
    check(backend, operator, problem, page(problem))


@operators
def test_a_softcap_of_zero_is_none(backend: Backend, operator: str) -> None:
    problem = make_problem([2, 2], [70, 9], rules=Rules(softcap=0.0))
    check(backend, operator, problem, page(problem))


@operators
@pytest.mark.parametrize("modifier", ["softcap", "sinks", "alibi_slopes"])
def test_one_modifier_at_a_time(backend: Backend, operator: str, modifier: str) -> None:
    value = {
        "softcap": 5.0,
        "sinks": torch.tensor([1.0, 3.0, -2.0, 0.0]),
        "alibi_slopes": torch.tensor([0.5, -0.25, 0.0625, 0.0]),
    }[modifier]
    problem = make_problem([3, 3, 3], [70, 9, 300], rules=Rules(**{modifier: value}), sharpness=4)
    paged = page(problem)
    for partition_size in (None, 16):
        check(backend, operator, problem, paged, partition_size=partition_size)


@pytest.mark.parametrize("dtype", FLOATS)
def test_modifiers_may_have_any_float_type(backend: Backend, dtype: torch.dtype) -> None:
    rules = Rules(
        sinks=torch.tensor([1.0, 3.0, -2.0, 0.0]).to(dtype), alibi_slopes=torch.ones(4).to(dtype) / 4
    )
    problem = make_problem([3, 3], [70, 2], dtype=torch.bfloat16, rules=rules)
    check_prefill(backend, problem, page(problem))
    check_decode(backend, problem, page(problem))


@operators
@with_lse
@pytest.mark.parametrize("dtype", FLOATS)
def test_outputs_go_to_the_given_buffers_whatever_their_strides(
    backend: Backend, operator: str, dtype: torch.dtype, return_lse: bool
) -> None:
    problem = make_problem([1] * 4, [70, 0, 33, 300], dtype=dtype)
    wide = torch.full((4, 6, 80), math.nan, dtype=dtype)
    wide_lse = torch.full((6, 4), math.nan)
    out, lse = wide[:, 1:5, 8:72], wide_lse[1:5].T  # head axis slower than the row axis
    out_there, lse_there = backend.adopt(out), backend.adopt(lse)
    options = {"lse": lse_there} if return_lse else {}
    run(backend, operator, problem, page(problem), out=out_there, **options)
    assert_output(out_there.cpu(), problem)
    if return_lse:
        assert_lse(lse_there.cpu(), problem)
    if backend.device.type == "cpu":
        assert wide.isnan().sum() == wide.numel() - out.numel()
        assert wide_lse.isnan().sum() == wide_lse.numel() - (lse.numel() if return_lse else 0)


@operators
@with_lse
def test_inputs_are_left_alone(backend: Backend, operator: str, return_lse: bool) -> None:
    sinks = torch.tensor([1.0, 3.0, -2.0, 0.0])
    problem = make_problem([2] * 4, [70, 0, 33, 300], rules=Rules(sinks=sinks))
    paged = page(problem)
    arrays = {"q": problem.q, "k": paged.k_cache, "v": paged.v_cache, "table": paged.block_table}
    with unchanged(**arrays, seq_lens=paged.seq_lens, sinks=sinks):
        run(backend, operator, problem, paged, return_lse=return_lse, validate=True)


@with_lse
@pytest.mark.parametrize("rules", [Rules(), Rules(softcap=20.0)], ids=["plain", "softcap"])
def test_query_rows_past_the_last_offset_are_padding(
    backend: Backend, return_lse: bool, rules: Rules
) -> None:
    problem = make_problem([5, 3], [40, 16], rules=rules)
    paged = page(problem)
    padded = torch.cat([problem.q, problem.q.new_full((4, 4, 64), math.nan)])
    arrays = [padded, paged.k_cache, paged.v_cache, paged.block_table, problem.cu_seqlens_q, paged.seq_lens]
    result = backend.ops.prefix_prefill(
        *(backend.adopt(x) for x in arrays), softcap=rules.softcap, return_lse=return_lse, validate=True
    )
    out = result[0] if return_lse else result
    assert_output(out[:8].cpu(), problem)
    assert bool((out[8:] == 0).all())
    if return_lse:
        assert_lse(result[1][:8].cpu(), problem)
        assert bool(torch.isneginf(result[1][8:]).all())


def test_a_batch_gives_each_sequence_what_it_gets_alone(backend: Backend) -> None:
    """Grouping by length, and the order of rows, are of no consequence."""
    lengths = [3, 900, 256, 257, 1, 2000, 700, 255, 0, 1100, 30]
    for q_len in (1, 3):
        batch = make_problem([q_len] * len(lengths), lengths, dtype=torch.float32, sharpness=3, seed=q_len)
        check_decode(backend, batch, page(batch))
        order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(q_len)).tolist()
        rows = [row for index in order for row in range(index * q_len, (index + 1) * q_len)]
        shuffled = Problem(
            batch.q[rows],
            batch.q_lens,
            [batch.k[i] for i in order],
            [batch.v[i] for i in order],
            batch.rules,
        )
        check_decode(backend, shuffled, page(shuffled))


def test_a_group_larger_than_the_gather_bound_is_split(backend: Backend) -> None:
    """40 sequences of 8,000 keys: more than an implementation may want to gather at once."""
    lengths = [8000 - 10 * row for row in range(40)]
    problem = make_problem([1] * 40, lengths, heads=(1, 1), dtype=torch.float32)
    out, _ = run(backend, "paged_decode", problem, page(problem, block_size=64))
    assert_output(out, problem)


def test_queries_whose_elements_are_apart(backend: Backend) -> None:
    problem = make_problem([1, 1], [40, 16])
    apart = problem.q.new_full((*problem.q.shape, 3), math.nan)
    apart[..., 1] = problem.q
    check_decode(backend, replace(problem, q=apart[..., 1]), page(problem))


def test_a_partition_and_a_window_larger_than_any_sequence(backend: Backend) -> None:
    problem = make_problem([1, 1], [40, 16], rules=Rules(window=2**40))
    check_decode(backend, problem, page(problem), partition_size=2**40)
