"""Attention without the matrix unit: what a card falls back to when its unit is not as assumed."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from support.check import assert_output
from support.emulation import emulated_module
from support.paging import page
from support.problem import Rules, make_problem

from hygon_backend import native, ops


def without_matrix_unit() -> ModuleType:
    """The emulated module, with every attention call told to avoid the matrix unit."""
    emulated = emulated_module()
    module = ModuleType("without_matrix_unit")
    module.__dict__.update(vars(emulated))

    def avoiding(name: str) -> None:
        def make_params() -> object:
            params = getattr(emulated, name)()
            params.avoid_matrix_unit = True
            return params

        setattr(module, name, make_params)

    avoiding("PagedDecodeParams")
    avoiding("PrefixPrefillParams")
    return module


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("heads", [(4, 2), (40, 1)])
def test_decode_gives_the_same_answer(dtype: torch.dtype, heads: tuple[int, int]) -> None:
    problem = make_problem([1, 1], [70, 33], heads=heads, dtype=dtype, rules=Rules(window=50), sharpness=3)
    paged = page(problem)
    with native.emulated(without_matrix_unit()):
        out = ops.paged_decode(
            problem.q, paged.k_cache, paged.v_cache, paged.block_table, paged.seq_lens, window=50
        )
    assert isinstance(out, torch.Tensor)
    assert_output(out, problem)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize("stored", [None, torch.float8_e4m3fn])
@pytest.mark.parametrize("partition_size", [None, 32])
def test_prefill_gives_the_same_answer(
    dtype: torch.dtype, softcap: float | None, stored: torch.dtype | None, partition_size: int | None
) -> None:
    scale = None if stored is None else 0.5
    rules = Rules(softcap=softcap)
    problem = make_problem(
        [40, 3], [90, 33], head_size=128, dtype=dtype, cache_dtype=stored, k_scale=scale, rules=rules
    )
    paged = page(problem)
    with native.emulated(without_matrix_unit()):
        out = ops.prefix_prefill(
            problem.q,
            paged.k_cache,
            paged.v_cache,
            paged.block_table,
            problem.cu_seqlens_q,
            paged.seq_lens,
            softcap=softcap,
            k_scale=scale,
            partition_size=partition_size,
        )
    assert isinstance(out, torch.Tensor)
    assert_output(out, problem)
