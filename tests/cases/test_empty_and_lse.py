"""Cases 14 to 18: empty rows, empty states, extreme logits and the natural-log LSE."""

import math

import pytest
import torch
from support.backends import Backend
from support.check import ATOL, LSE_ATOL, check_decode, check_prefill, run
from support.paging import page
from support.problem import Problem, Rules, make_problem

from hygon_backend import reference
from hygon_backend.kv_layout import KVLayout

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def merge(backend: Backend, *states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = backend.ops.merge_states(*(backend.adopt(x) for x in states))
    return out.cpu(), lse.cpu()


@pytest.mark.parametrize("dtype", FLOATS)
def test_case_14_merging_two_empty_states_gives_an_empty_state(backend: Backend, dtype: torch.dtype) -> None:
    garbage = torch.full((2, 3, 8), math.nan, dtype=dtype)
    empty = torch.full((2, 3), -math.inf)
    out, lse = merge(backend, garbage, empty, garbage, empty)
    assert out.dtype is dtype
    assert bool((out == 0).all())
    assert bool(torch.isneginf(lse).all())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("empty_side", ["first", "second"])
def test_case_14_an_empty_side_is_ignored_whatever_it_holds(
    backend: Backend, dtype: torch.dtype, empty_side: str
) -> None:
    state = (torch.randn(2, 3, 8).to(dtype), torch.randn(2, 3))
    for garbage in (math.nan, math.inf, 3e4):
        nothing = (torch.full((2, 3, 8), garbage, dtype=dtype), torch.full((2, 3), -math.inf))
        sides = (*nothing, *state) if empty_side == "first" else (*state, *nothing)
        out, lse = merge(backend, *sides)
        assert torch.equal(out, state[0])
        torch.testing.assert_close(lse, state[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_case_14_merge_is_that_of_the_reference(backend: Backend, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(14)
    o_a, o_b = (torch.randn(50, 3, 16, generator=generator).to(dtype) for _ in range(2))
    lse_a, lse_b = (torch.randn(50, 3, generator=generator) * 20 for _ in range(2))
    lse_a[::7] = -math.inf
    lse_b[::5] = -math.inf
    lse_a[3], lse_b[3] = 60000.0, 60001.0
    # Slices of larger tensors: states come out of packed buffers.
    o_a = torch.cat([o_a, o_b], 2)[..., :16]
    lse_a = torch.stack([lse_a, lse_b], 2)[..., 0]
    want, want_lse = reference.merge_states(o_a, lse_a, o_b, lse_b)
    out, lse = merge(backend, o_a, lse_a, o_b, lse_b)
    assert out.dtype is dtype
    assert lse.dtype is torch.float32
    torch.testing.assert_close(out.double(), want, atol=1e-5, rtol=torch.finfo(dtype).eps)
    torch.testing.assert_close(lse.double(), want_lse, atol=1e-5, rtol=1e-7)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("tokens", "heads", "size"), [(1, 1, 1), (3, 5, 7), (70, 3, 20), (2, 1, 300), (0, 2, 8)]
)
def test_merge_of_any_shape_and_stride(
    backend: Backend, dtype: torch.dtype, tokens: int, heads: int, size: int
) -> None:
    generator = torch.Generator().manual_seed(size)
    o_a, o_b = torch.randn(2, size, heads, tokens, generator=generator).to(dtype).permute(0, 3, 2, 1)
    lse_a, lse_b = torch.randn(2, heads, tokens, generator=generator).transpose(1, 2)
    want, want_lse = reference.merge_states(o_a, lse_a, o_b, lse_b)
    out, lse = merge(backend, o_a, lse_a, o_b, lse_b)
    assert (out.shape, lse.shape) == (o_a.shape, lse_a.shape)
    torch.testing.assert_close(out.double(), want, atol=1e-5, rtol=torch.finfo(dtype).eps)
    torch.testing.assert_close(lse.double(), want_lse, atol=1e-5, rtol=1e-7)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize(("len_q", "len_k"), [(4, 1), (16, 3), (9, 8), (600, 70)])
def test_case_15_more_queries_than_keys(
    backend: Backend, len_q: int, len_k: int, sink: bool, window: int | None
) -> None:
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0]) if sink else None
    problem = make_problem([len_q, len_q], [len_k, len_k + 1], rules=Rules(window=window, sinks=sinks))
    paged = page(problem, block_size=4)
    for operator in ("paged_decode", "prefix_prefill"):
        out, lse = run(backend, operator, problem, paged, return_lse=True)
        empty = len_q - len_k
        assert bool((out[:empty] == 0).all())
        assert torch.equal(lse[:empty], (sinks if sink else torch.tensor(-math.inf)).expand(empty, 4))
        out, _ = run(backend, operator, problem, paged)
        assert bool((out[:empty] == 0).all())
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


def test_case_15_without_a_mask_every_row_sees_every_key(backend: Backend) -> None:
    problem = make_problem([9], [4], rules=Rules(causal=False))
    check_prefill(backend, problem, page(problem, block_size=4))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("sink", [False, True])
def test_case_16_one_row_of_the_batch_has_queries_but_no_keys(
    backend: Backend, causal: bool, sink: bool
) -> None:
    rules = Rules(causal=causal, sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]) if sink else None)
    problem = make_problem([3, 3, 3], [40, 0, 17], rules=rules)
    paged = page(problem, block_size=16)
    out, lse = run(backend, "prefix_prefill", problem, paged, return_lse=True)
    assert bool((out[3:6] == 0).all())
    assert torch.equal(lse[3:6], (rules.sinks if sink else torch.tensor(-math.inf)).expand(3, 4))
    check_prefill(backend, problem, paged)
    if causal:
        check_decode(backend, problem, paged)


def test_case_16_rows_of_the_batch_without_queries(backend: Backend) -> None:
    problem = make_problem([0, 5, 0, 1, 0], [7, 9, 0, 30, 16])
    check_prefill(backend, problem, page(problem, block_size=8), validate=True)


def constant_logits(logit: float, len_k: int, dtype: torch.dtype) -> Problem:
    """One head of size 16 whose logits are all `logit`, up to a distinct small term per key."""
    problem = make_problem([2], [len_k], heads=(1, 1), head_size=16, dtype=dtype, rules=Rules(scale=1.0))
    problem.q.zero_()
    problem.q[..., 0], problem.q[..., 1] = 1.0, 1.0
    problem.k[0].zero_()
    problem.k[0][..., 0] = logit
    problem.k[0][..., 1] = torch.arange(len_k)[:, None] % 3
    return problem


@pytest.mark.parametrize("partition_size", [None, 16])
@pytest.mark.parametrize("logit", [-51200.0, -60928.0, 60928.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_case_17_logits_beyond_50000_in_size_are_valid(
    backend: Backend, logit: float, dtype: torch.dtype, partition_size: int | None
) -> None:
    """Code that stands -5e4 in for minus infinity drops such keys; bfloat16 holds these logits exactly."""
    problem = constant_logits(logit, 40, dtype)
    paged = page(problem, block_size=16)
    weights = torch.exp(torch.arange(40) % 3).double()
    for operator in ("paged_decode", "prefix_prefill"):
        for return_lse in (False, True):
            out, lse = run(
                backend, operator, problem, paged, return_lse=return_lse, partition_size=partition_size
            )
            for row, seen in enumerate((39, 40)):
                w, v = weights[:seen], problem.v[0][:seen, 0].double()
                want = (w[:, None] * v).sum(0) / w.sum()
                # Two float32 roundings of a logit near 60,000 cost 0.004 each.
                error = (out[row, 0].double() - want).abs().max().item()
                assert error < 0.02 + 4 * torch.finfo(dtype).eps
                if lse is not None:
                    assert lse[row, 0].item() == pytest.approx(logit + math.log(w.sum()), abs=0.02)


def uniform_problem(len_k: int) -> Problem:
    problem = make_problem([1], [len_k], heads=(2, 1))
    problem.q.zero_()
    return problem


@pytest.mark.parametrize("len_k", [1, 2, 64, 1000, 3136])
def test_case_18_lse_is_the_natural_logarithm(backend: Backend, len_k: int) -> None:
    """With q = 0 every weight is 1, so the LSE is ln of the number of keys."""
    problem = uniform_problem(len_k)
    paged = page(problem)
    for operator in ("paged_decode", "prefix_prefill"):
        _, lse = run(backend, operator, problem, paged, return_lse=True)
        assert lse.flatten().tolist() == pytest.approx([math.log(len_k)] * 2, abs=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_case_18_a_prefix_of_3072_and_64_new_tokens_merge_to_the_whole(
    backend: Backend, dtype: torch.dtype
) -> None:
    whole = make_problem([64], [3136], heads=(4, 2), dtype=dtype, sharpness=4)
    prefix = Problem(whole.q, [64], [whole.k[0][:3072]], [whole.v[0][:3072]], Rules(causal=False))
    extend = Problem(whole.q, [64], [whole.k[0][3072:]], [whole.v[0][3072:]], Rules())
    states = [
        run(backend, "prefix_prefill", part, page(part, KVLayout.BHSD, 64), return_lse=True)
        for part in (prefix, extend)
    ]
    out, lse = merge(backend, *states[0], *states[1])
    assert (lse - whole.exact.lse).abs().max() < LSE_ATOL
    error = (out.double() - whole.exact.out).abs().max()
    # Three roundings to the output type instead of one.
    bound = 2 * (whole.low_precision.out.double() - whole.exact.out).abs().max() + ATOL[dtype]
    assert error < bound + torch.finfo(dtype).eps * whole.exact.out.abs().max()


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("return_lse", [False, True])
def test_batches_without_any_work(backend: Backend, return_lse: bool, window: int | None) -> None:
    """No sequence, no query, or no column in the table: legal, and nothing is read."""
    cache = backend.adopt(torch.full((2, 4, 2, 8), math.nan, dtype=backend.dtype))
    options = {"return_lse": return_lse, "window": window, "validate": True}

    def ints(*values: int, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        return backend.adopt(torch.tensor(values, dtype=torch.int32).reshape(shape or (-1,)))

    def queries(*shape: int) -> torch.Tensor:
        return backend.adopt(torch.ones(*shape, 4, 8, dtype=backend.dtype))

    def shape_of(result: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> tuple[int, ...]:
        out = result[0] if isinstance(result, tuple) else result
        assert bool((out == 0).all())
        return tuple(out.shape)

    decode, prefill = backend.ops.paged_decode, backend.ops.prefix_prefill
    ragged, slots = backend.ops.ragged_prefill, (cache.flatten(0, 1), cache.flatten(0, 1))
    caches, no_table, no_columns = (cache, cache), ints(shape=(0, 3)), ints(shape=(1, 0))
    assert shape_of(decode(queries(0), *caches, no_table, ints(), **options)) == (0, 4, 8)
    assert shape_of(decode(queries(1, 0), *caches, ints(0, shape=(1, 1)), ints(4), **options)) == (1, 0, 4, 8)
    assert shape_of(decode(queries(1), *caches, no_columns, ints(0), **options)) == (1, 4, 8)
    assert shape_of(prefill(queries(0), *caches, no_table, ints(0), ints(), **options)) == (0, 4, 8)
    assert shape_of(prefill(queries(3), *caches, no_columns, ints(0, 3), ints(0), **options)) == (3, 4, 8)
    assert shape_of(prefill(queries(3), *caches, no_table, ints(0), ints(), **options)) == (3, 4, 8)
    assert shape_of(ragged(queries(0), *slots, ints(0), ints(0), ints(), **options)) == (0, 4, 8)
    assert shape_of(ragged(queries(3), *slots, ints(0), ints(0), ints(-1), **options)) == (3, 4, 8)
    assert shape_of(ragged(queries(3), *slots, ints(0, 3), ints(0, 0), ints(), **options)) == (3, 4, 8)
