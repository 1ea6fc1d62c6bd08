"""Cases 34 to 36: scales, saturation and strides of fp8 caches."""

import math

import pytest
import torch
from support.backends import Backend
from support.check import check_decode, check_prefill
from support.paging import PoolStyle, make_pool, page
from support.problem import make_problem

from hygon_backend.kv_layout import KVLayout

FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]

layouts = pytest.mark.parametrize("layout", list(KVLayout), ids=str)
fp8_types = pytest.mark.parametrize("cache_dtype", FP8)


@layouts
@fp8_types
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("q_len", [1, 4])
def test_case_34_scales_025_and_05_are_honoured(
    backend: Backend, layout: KVLayout, cache_dtype: torch.dtype, dtype: torch.dtype, q_len: int
) -> None:
    problem = make_problem(
        [q_len] * 3,
        [70, 16, 33],
        dtype=dtype,
        cache_dtype=cache_dtype,
        k_scale=0.25,
        v_scale=0.5,
        sharpness=4,
    )
    paged = page(problem, layout)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


@pytest.mark.parametrize("k_scale", [None, 1, 3.0, torch.tensor(0.3), torch.tensor([0.3])])
@pytest.mark.parametrize("v_scale", [None, 1.0, torch.tensor([0.7]).bfloat16()])
def test_case_34_every_form_of_a_scale(
    backend: Backend, k_scale: float | torch.Tensor | None, v_scale: float | torch.Tensor | None
) -> None:
    problem = make_problem(
        [2, 2], [70, 16], cache_dtype=torch.float8_e4m3fn, k_scale=k_scale, v_scale=v_scale, sharpness=4
    )
    paged = page(problem)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)


SATURATED = [449.0, 480.0, 1e4, math.inf, -449.0, -math.inf]


@layouts
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("cache_dtype", "limit"), [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)]
)
@pytest.mark.parametrize("scale", [None, 0.5])
def test_case_35_writes_saturate_and_keep_nan(
    backend: Backend,
    layout: KVLayout,
    source: torch.dtype,
    cache_dtype: torch.dtype,
    limit: float,
    scale: float | None,
) -> None:
    values = torch.tensor(
        [449.0, 480.0, 1e4, 6e4, math.inf, -449.0, -6e4, -math.inf, math.nan, 1.0, 0.0, 448.0]
    )
    row = torch.zeros(16)
    row[: len(values)] = values
    tokens = row.to(source)[None, None].expand(1, 2, 16)
    like = torch.empty(1, 2, 16, dtype=cache_dtype)
    caches = backend.adopt_all(*make_pool(2, 4, like, like, layout, PoolStyle()))
    tokens = backend.adopt(tokens)
    backend.ops.write_kv(
        tokens, tokens, *caches, backend.adopt(torch.tensor([5])), layout=layout, k_scale=scale, v_scale=scale
    )
    table, length = backend.adopt(torch.tensor([[0, 1]])), backend.adopt(torch.tensor([6]))
    keys, values_back, _ = backend.ops.gather_kv(*caches, table, length, layout=layout)
    target = (row.to(source).double() / (scale or 1.0)).clamp(-limit, limit)
    for back in (keys, values_back):
        stored = back[5].cpu().double()
        for head in stored:
            assert torch.equal(head.isnan(), target.isnan())
            # Rounding of the fp8 type: 3 or 2 bits of mantissa.
            close = torch.isclose(head, target, rtol=torch.finfo(cache_dtype).eps / 2, atol=0)
            assert bool((close | head.isnan()).all())
            saturated = target.abs() == limit
            assert torch.equal(head[saturated], target[saturated])


@layouts
@fp8_types
@pytest.mark.parametrize(
    "style", [PoolStyle(row_gap=3), PoolStyle(interleaved=True, page_gap=48, row_gap=16)]
)
def test_case_36_per_head_scales_and_padded_strides(
    backend: Backend, layout: KVLayout, cache_dtype: torch.dtype, style: PoolStyle
) -> None:
    problem = make_problem(
        [3, 3, 3],
        [70, 16, 33],
        heads=(6, 3),
        dtype=torch.bfloat16,
        cache_dtype=cache_dtype,
        k_scale=torch.tensor([0.25, 1.0, 3.0]),
        v_scale=torch.tensor([2.0, 0.5, 0.1]),
        sharpness=4,
    )
    paged = page(problem, layout, style=style)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)
