"""Runs operators of a backend on paged problems and compares with the exact answer."""

from __future__ import annotations

import torch

from support.backends import Backend
from support.paging import Paged, ragged_indices
from support.problem import Problem, cu_seqlens

ATOL = {torch.float16: 1e-5, torch.bfloat16: 1e-5, torch.float32: 2e-5}
"""Absolute slack beside twice the low-precision error. In float32 both runs err by a few 1e-6 where
logits reach 50, in whatever order they add, so there the slack is a few times that."""

LSE_ATOL, LSE_RTOL = 1e-4, 1e-5


def run(
    backend: Backend, operator: str, problem: Problem, paged: Paged, **options: object
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Calls an attention operator and returns (out `[T, Hq, Dv]`, lse `[T, Hq]` or None).

    `ragged_prefill` takes a problem with pages of one key.

    For `paged_decode` all sequences of the problem have the same number of queries: q is passed as
    `[S, Hq, D]` for one query each and as `[S, q_len, Hq, D]` for more. LSE is None unless
    `return_lse` or `lse` is among the options.
    """
    decode = operator == "paged_decode"
    rules = problem.rules.arguments()
    if decode:
        del rules["causal"]
    scales = {"k_scale": problem.k_scale, "v_scale": problem.v_scale}
    if not decode:
        scales["q_scale"] = problem.q_scale
    masks = {}
    if problem.masks is not None:
        sizes = [mask.numel() for mask in problem.masks]
        masks["custom_mask"] = backend.adopt(torch.cat([mask.flatten() for mask in problem.masks]))
        masks["mask_indptr"] = backend.adopt(cu_seqlens(sizes))
    keywords = {name: backend.adopt_optional(value) for name, value in {**rules, **scales}.items()}
    q_len = problem.q_lens[0]
    q = problem.q.unflatten(0, (-1, q_len)) if decode and q_len != 1 else problem.q
    if operator == "ragged_prefill":
        caches = [cache.select(1, 0) for cache in (paged.k_cache, paged.v_cache)]
        arguments = [q, *caches, problem.cu_seqlens_q, cu_seqlens(problem.kv_lens), ragged_indices(paged)]
    else:
        offsets = [] if decode else [problem.cu_seqlens_q]
        arguments = [q, paged.k_cache, paged.v_cache, paged.block_table, *offsets, paged.seq_lens]
        options = {"layout": paged.layout, **options}
    result = getattr(backend.ops, operator)(
        *(backend.adopt(x) for x in arguments), **keywords, **masks, **options
    )
    out, lse = result if isinstance(result, tuple) else (result, None)
    assert out.shape == (*q.shape[:-1], problem.v[0].shape[-1])
    assert lse is None or lse.shape == q.shape[:-1]
    return out.flatten(0, -3).cpu(), None if lse is None else lse.flatten(0, -2).cpu()


def check(backend: Backend, operator: str, problem: Problem, paged: Paged, **options: object) -> None:
    """Compares an operator with the exact answer, with and without LSE: each may take its own path."""
    for return_lse in (True, False):
        out, lse = run(backend, operator, problem, paged, return_lse=return_lse, **options)
        assert (lse is not None) == return_lse
        assert_output(out, problem)
        if lse is not None:
            assert_lse(lse, problem)


def check_decode(backend: Backend, problem: Problem, paged: Paged, **options: object) -> None:
    """`check` for `paged_decode`."""
    check(backend, "paged_decode", problem, paged, **options)


def check_prefill(backend: Backend, problem: Problem, paged: Paged, **options: object) -> None:
    """`check` for `prefix_prefill`."""
    check(backend, "prefix_prefill", problem, paged, **options)


def assert_output(out: torch.Tensor, problem: Problem, *, ulps: float = 0) -> None:
    """Asserts `max|out - exact| <= 2 * max|low_precision - exact| + atol`.

    Args:
        out: `[T, Hq, Dv]`.
        problem: what was asked.
        ulps: further allowance in units of the output type's rounding of the largest element. Drawn
            problems need it: of a handful of elements the low-precision run can hit every one.
    """
    want = problem.exact.out
    assert out.dtype is problem.dtype
    assert out.shape == want.shape
    if out.numel() == 0:
        return
    error = (out.double() - want).abs().max().item()
    bound = 2 * (problem.low_precision.out.double() - want).abs().max().item() + ATOL[out.dtype]
    bound += ulps * torch.finfo(out.dtype).eps * want.abs().max().item()
    assert error <= bound, f"output off by {error:.3g}, allowed {bound:.3g}"


def assert_lse(lse: torch.Tensor, problem: Problem) -> None:
    """Asserts that the LSE is exact to float32, given operands rounded to the query's dtype."""
    want, rounded = problem.exact.lse, problem.low_precision.lse.double()
    assert lse.dtype is torch.float32
    empty = torch.isneginf(want)
    assert torch.equal(torch.isneginf(lse), empty), "LSE must be -inf exactly where a row is empty"
    error, allowed = _largest(lse - want, ~empty), _largest(rounded - want, ~empty)
    bound = 2 * allowed + LSE_ATOL + LSE_RTOL * _largest(want, ~empty)
    assert error <= bound, f"LSE off by {error:.3g}, allowed {bound:.3g}"


def _largest(values: torch.Tensor, where: torch.Tensor) -> float:
    chosen = values[where]
    return chosen.abs().max().item() if chosen.numel() else 0.0
