"""Hypothesis strategies for operator calls: every shape, stride, type and modifier at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import strategies as st

from hygon_backend.kv_layout import KVLayout
from support.paging import Paged, PoolStyle, page, poisoned
from support.problem import Problem, Rules, Scale, make_problem

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
HALVES = [torch.bfloat16, torch.float16]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
HEAD_SIZES = [16, 24, 40, 64, 80, 128, 192, 256]
BLOCK_SIZES = [1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256]


@dataclass(frozen=True)
class Call:
    """An attention call: a problem, its pages and the options beside them."""

    problem: Problem
    paged: Paged
    options: dict[str, object] = field(default_factory=dict)


def lengths_near(block_size: int) -> st.SearchStrategy[int]:
    """Key counts: short, long, and around page limits; 0 among them."""
    near_limit = st.builds(
        lambda pages, d: max(0, pages * block_size + d), st.integers(0, 4), st.integers(-1, 1)
    )
    return st.one_of(st.integers(0, 20), st.integers(0, 400), near_limit.filter(lambda n: n <= 520))


@st.composite
def rules(draw: st.DrawFn, heads: int, *, may_be_acausal: bool) -> Rules:
    """Any combination of modifiers."""
    causal = not may_be_acausal or draw(st.integers(0, 3)) > 0
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def per_head(low: float, high: float) -> torch.Tensor | None:
        if not draw(st.booleans()):
            return None
        values = torch.rand(heads, generator=generator) * (high - low) + low
        return values.to(draw(st.sampled_from(FLOATS)))

    return Rules(
        scale=draw(st.one_of(st.none(), st.floats(-0.5, 0.5, allow_subnormal=False))),
        causal=causal,
        window=draw(st.one_of(st.none(), st.integers(1, 20), st.integers(1, 500))) if causal else None,
        softcap=draw(st.one_of(st.none(), st.sampled_from([0, 0.5, 5.0, 50.0]))),
        sinks=per_head(-5, 5),
        alibi_slopes=per_head(-0.1, 0.5),
    )


def scales(heads_kv: int) -> st.SearchStrategy[Scale]:
    """An fp8 scale in each of its forms."""
    number = st.floats(0.0625, 4.0)
    return st.one_of(
        st.none(),
        number,
        number.map(torch.tensor),
        number.map(lambda x: torch.tensor([x])),
        st.lists(number, min_size=heads_kv, max_size=heads_kv).map(torch.tensor),
    )


def pool_styles() -> st.SearchStrategy[PoolStyle]:
    """Separate or interleaved pools, with or without gaps, and either poison."""
    return st.builds(
        PoolStyle,
        interleaved=st.booleans(),
        page_gap=st.sampled_from([0, 0, 16, 37]),
        row_gap=st.sampled_from([0, 0, 16, 5]),
        poison=st.sampled_from(["nan", "large"]),
    )


def cut_from_packed_rows(q: torch.Tensor, style: str) -> torch.Tensor:
    """The same queries as a slice of a larger tensor of NaN."""
    rows, heads, size = q.shape
    if style == "packed qkv":
        wide = poisoned((rows, (heads + 4) * size), q.dtype)
        cut = wide[:, size : (heads + 1) * size].unflatten(1, (heads, size))
    elif style == "padded heads":
        cut = poisoned((rows, heads, size + 8), q.dtype)[..., :size]
    else:
        return q
    cut.copy_(q)
    return cut


@st.composite
def attention_calls(draw: st.DrawFn, operator: str, *, for_kernels: bool = False) -> Call:
    """A legal call of an attention operator; `for_kernels` keeps to types that have kernels."""
    decode, ragged = operator == "paged_decode", operator == "ragged_prefill"
    layout = KVLayout.BSHD if ragged else draw(st.sampled_from(list(KVLayout)))
    block_size = 1 if ragged else draw(st.sampled_from(BLOCK_SIZES))
    heads_kv, group = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 3, 5, 8, 16, 17, 40]))
    sizes = [n for n in HEAD_SIZES if layout is not KVLayout.X_PACKED or n % 16 == 0]
    head_size = draw(st.sampled_from(sizes))
    head_size_v = draw(st.one_of(st.just(head_size), st.sampled_from(HEAD_SIZES)))
    dtype = draw(st.sampled_from(HALVES if for_kernels else FLOATS))
    stored = [st.just(dtype), st.sampled_from(FP8)]
    cache_dtype = draw(st.one_of(stored if for_kernels else [*stored, st.sampled_from(FLOATS)]))
    scaled = cache_dtype in FP8

    kv_lens = draw(st.lists(lengths_near(block_size), min_size=1, max_size=6))
    if decode:
        q_lens = [draw(st.one_of(st.just(1), st.integers(1, 16)))] * len(kv_lens)
    else:
        q_len = st.one_of(st.integers(0, 5), st.integers(0, 80), st.sampled_from([511, 512, 513, 600]))
        q_lens = draw(st.lists(q_len, min_size=len(kv_lens), max_size=len(kv_lens)))
    call_rules = draw(rules(heads_kv * group, may_be_acausal=not decode))
    prefill_extras: dict[str, Any] = {}
    if not decode and call_rules.causal and draw(st.integers(0, 3)) == 0:
        prefill_extras["mask_density"] = draw(st.sampled_from([0.0, 0.3, 1.0]))
    if not decode and dtype is torch.bfloat16 and draw(st.integers(0, 3)) == 0:
        prefill_extras |= {"q_dtype": draw(st.sampled_from(FP8)), "q_scale": draw(scales(1))}
    problem = make_problem(
        q_lens,
        kv_lens,
        heads=(heads_kv * group, heads_kv),
        head_size=head_size,
        head_size_v=head_size_v,
        dtype=dtype,
        cache_dtype=cache_dtype,
        rules=call_rules,
        k_scale=draw(scales(heads_kv)) if scaled else None,
        v_scale=draw(scales(heads_kv)) if scaled else None,
        **prefill_extras,
        sharpness=draw(st.sampled_from([1.0, 8.0])),
        seed=draw(st.integers(0, 2**16)),
    )
    stride = draw(st.sampled_from(["dense", "packed qkv", "padded heads"]))
    problem = replace(problem, q=cut_from_packed_rows(problem.q, stride))
    paged = page(
        problem,
        layout,
        block_size,
        style=draw(pool_styles()),
        spare_columns=draw(st.integers(0, 3)),
        index_dtype=draw(st.sampled_from([torch.int32, torch.int64])),
        seed=draw(st.integers(0, 2**16)),
    )
    options = {
        "return_lse": draw(st.booleans()),
        "partition_size": draw(st.one_of(st.none(), st.none(), st.integers(1, 600))),
        "validate": draw(st.booleans()),
    }
    return Call(problem, paged, options)


@dataclass(frozen=True)
class Write:
    """A `write_kv` call."""

    k: torch.Tensor
    v: torch.Tensor
    slots: torch.Tensor
    layout: KVLayout
    block_size: int
    cache_dtype: torch.dtype
    style: PoolStyle
    num_blocks: int
    scales: dict[str, Scale]


@st.composite
def writes(draw: st.DrawFn) -> Write:
    """A legal `write_kv` call, some slots negative.

    Scales are powers of two, so that `x / scale` is exact in any arithmetic.
    """
    layout = draw(st.sampled_from(list(KVLayout)))
    block_size, num_blocks = draw(st.sampled_from(BLOCK_SIZES)), draw(st.integers(1, 5))
    heads, count = draw(st.integers(1, 3)), draw(st.integers(0, 40))
    sizes = [n for n in HEAD_SIZES if layout is not KVLayout.X_PACKED or n % 16 == 0]
    head_size, head_size_v = draw(st.sampled_from(sizes)), draw(st.sampled_from(HEAD_SIZES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    rows = torch.randn(count, heads, head_size + head_size_v + 5, generator=generator)
    rows = (rows * draw(st.sampled_from([0.01, 1.0, 300.0]))).to(draw(st.sampled_from(FLOATS)))
    count = min(count, num_blocks * block_size)
    slots = torch.randperm(num_blocks * block_size, generator=generator)[:count]
    slots[torch.rand(count, generator=generator) < 0.2] = -draw(st.integers(1, 2**31))
    powers = st.integers(-4, 4).map(lambda n: 2.0**n)
    scale = st.one_of(st.none(), powers, st.lists(powers, min_size=heads, max_size=heads).map(torch.tensor))
    return Write(
        k=rows[:count, :, 2 : head_size + 2],
        v=rows[:count, :, head_size + 2 : head_size + 2 + head_size_v],
        slots=slots.to(draw(st.sampled_from([torch.int32, torch.int64]))),
        layout=layout,
        block_size=block_size,
        cache_dtype=draw(st.sampled_from(FLOATS + FP8)),
        style=draw(pool_styles()),
        num_blocks=num_blocks,
        scales={"k_scale": draw(scale), "v_scale": draw(scale)},
    )
