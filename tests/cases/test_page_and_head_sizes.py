"""Cases 24 to 28: page sizes, GQA ratios and head sizes."""

import pytest
import torch
from support.backends import Backend
from support.check import check_decode, check_prefill
from support.paging import page
from support.problem import Rules, make_problem

from hygon_backend.kv_layout import KVLayout

layouts = pytest.mark.parametrize("layout", list(KVLayout), ids=str)

GQA = [(28, 4), (5, 1), (12, 4), (40, 8), (48, 1), (64, 1), (9, 3), (14, 2), (6, 6)]


@layouts
@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 32, 64, 128, 256])
def test_case_24_every_page_size(backend: Backend, layout: KVLayout, block_size: int) -> None:
    problem = make_problem([2, 2, 2, 2], [300, 256, 5, 129], dtype=torch.bfloat16, seed=block_size)
    paged = page(problem, layout, block_size)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


@layouts
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_case_25_page_128_with_queries_8_16_5(backend: Backend, layout: KVLayout, dtype: torch.dtype) -> None:
    problem = make_problem([8, 16, 5], [300, 128, 5], heads=(8, 8), head_size=128, dtype=dtype)
    check_prefill(backend, problem, page(problem, layout, 128))


@layouts
@pytest.mark.parametrize("block_size", [1, 2, 4, 7])
@pytest.mark.parametrize("cache_dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.float32])
def test_case_26_pages_below_16_bytes_of_elements(
    backend: Backend, layout: KVLayout, block_size: int, cache_dtype: torch.dtype
) -> None:
    dtype = torch.bfloat16 if cache_dtype.itemsize < 4 else torch.float32
    problem = make_problem([2, 2], [19, 8], dtype=dtype, cache_dtype=cache_dtype, seed=26)
    paged = page(problem, layout, block_size)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


@layouts
@pytest.mark.parametrize("heads", GQA, ids=lambda heads: f"{heads[0]}/{heads[1]}")
def test_case_27_gqa_ratios(backend: Backend, layout: KVLayout, heads: tuple[int, int]) -> None:
    sinks = torch.linspace(-2, 2, heads[0])
    for rules in (Rules(), Rules(sinks=sinks, alibi_slopes=torch.linspace(0.01, 0.5, heads[0]))):
        for q_len in (1, 2):
            problem = make_problem(
                [q_len] * 3, [70, 33, 5], heads=heads, dtype=torch.bfloat16, rules=rules, sharpness=4
            )
            paged = page(problem, layout)
            check_decode(backend, problem, paged)
            check_prefill(backend, problem, paged)


@layouts
@pytest.mark.parametrize("head_size", [16, 32, 64, 80, 96, 112, 128, 160, 192, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_case_28_head_sizes(backend: Backend, layout: KVLayout, head_size: int, dtype: torch.dtype) -> None:
    problem = make_problem([2, 2], [70, 9], head_size=head_size, dtype=dtype, seed=head_size)
    paged = page(problem, layout)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


@layouts
@pytest.mark.parametrize(("head_size", "head_size_v"), [(192, 128), (64, 256), (128, 8)])
def test_case_28_values_of_another_head_size(
    backend: Backend, layout: KVLayout, head_size: int, head_size_v: int
) -> None:
    problem = make_problem([2, 2], [70, 9], head_size=head_size, head_size_v=head_size_v)
    paged = page(problem, layout)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)
