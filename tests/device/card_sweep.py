"""Calls every native operator once per kind of shape, for a memory checker to watch.

Usage: PYTHONPATH=.:tests python tests/device/card_sweep.py

Inputs are made on the host and copied over, since a checker of uninitialised memory follows copies.
Ends with the number of calls each path served; any call that no kernel served is an error.
"""

from __future__ import annotations

import itertools
import sys

import torch
from support.backends import BACKENDS
from support.check import check, check_decode, check_prefill
from support.paging import PoolStyle, page
from support.problem import Rules, make_problem

from hygon_backend import counters
from hygon_backend.kv_layout import KVLayout

HALVES = (torch.bfloat16, torch.float16)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def sweep_decode() -> None:
    """Head sizes, groups, layouts, page sizes, types, modifiers and splits, each at least once."""
    card = BACKENDS["cuda"]
    everything = Rules(
        window=50, softcap=20.0, sinks=torch.linspace(-2, 2, 4), alibi_slopes=torch.linspace(0.1, 0.4, 4)
    )
    for dtype, size in itertools.product(HALVES, (24, 64, 80, 96, 128, 160, 192, 256)):
        problem = make_problem([1, 1, 1], [130, 0, 17], dtype=dtype, head_size=size)
        check_decode(card, problem, page(problem))
    for heads in ((5, 1), (48, 1), (64, 1), (9, 3), (28, 4), (80, 1)):
        problem = make_problem([1, 1], [130, 33], dtype=HALVES[0], heads=heads)
        check_decode(card, problem, page(problem), partition_size=32)
    for layout, block_size in itertools.product(KVLayout, (1, 16, 100)):
        problem = make_problem([3, 3], [200, 2], dtype=HALVES[0], rules=everything)
        style = PoolStyle(interleaved=True, page_gap=37)
        check_decode(card, problem, page(problem, layout, block_size, style=style), partition_size=64)
    for block_size, length in ((1, 2500), (3, 4000)):  # more page ids than a block stages at a time
        problem = make_problem([1, 1], [length, 5], dtype=HALVES[0], heads=(20, 1), sharpness=3)
        check_decode(card, problem, page(problem, block_size=block_size), partition_size=1 << 20)
    for dtype, stored in itertools.product(HALVES, FP8):
        scales = {"k_scale": torch.tensor([0.25, 0.5]), "v_scale": 0.5}
        problem = make_problem([1, 1], [200, 5], dtype=dtype, cache_dtype=stored, head_size=128, **scales)
        check_decode(card, problem, page(problem))


def sweep_prefill() -> None:
    """The same for prefill, with its masks, fp8 queries and ragged slots."""
    card = BACKENDS["cuda"]
    everything = Rules(
        window=50, softcap=20.0, sinks=torch.linspace(-2, 2, 4), alibi_slopes=torch.linspace(0.1, 0.4, 4)
    )
    for dtype, size in itertools.product(HALVES, (24, 64, 80, 128, 192, 256)):
        problem = make_problem([70, 1, 4], [130, 0, 17], dtype=dtype, head_size=size)
        check_prefill(card, problem, page(problem))
    for layout, block_size in itertools.product(KVLayout, (1, 3, 16, 64, 100)):
        problem = make_problem([30, 3], [200, 2], dtype=HALVES[0], rules=everything)
        style = PoolStyle(interleaved=True, page_gap=37)
        check_prefill(card, problem, page(problem, layout, block_size, style=style), partition_size=64)
    for block_size in (1, 3, 8, 16, 64, 256):
        problem = make_problem([150, 33], [400, 33], dtype=HALVES[0], heads=(7, 1), head_size=128)
        check_prefill(card, problem, page(problem, block_size=block_size))
        check_prefill(card, problem, page(problem, block_size=block_size), partition_size=128)
    for rules in (Rules(causal=False), Rules(window=20), Rules(scale=-0.2)):
        problem = make_problem([150, 33], [400, 33], dtype=HALVES[0], head_size=128, rules=rules)
        check_prefill(card, problem, page(problem))
    for dtype, stored in itertools.product(HALVES, FP8):
        problem = make_problem(
            [40, 3], [200, 5], dtype=dtype, cache_dtype=stored, head_size=128, k_scale=0.25, v_scale=0.5
        )
        check_prefill(card, problem, page(problem))
    problem = make_problem([40], [90], dtype=HALVES[0], q_dtype=FP8[0], q_scale=0.5, mask_density=0.5)
    check_prefill(card, problem, page(problem))
    problem = make_problem([40, 0, 7], [90, 4, 300], dtype=HALVES[0], head_size=128)
    check(card, "ragged_prefill", problem, page(problem, block_size=1))


def sweep_cache() -> None:
    """Writes, copies, gathers and merges."""
    ops = BACKENDS["cuda"].ops
    for dtype, layout in itertools.product((*HALVES, *FP8), KVLayout):
        problem = make_problem([1], [40], dtype=HALVES[0], cache_dtype=dtype)
        paged = page(problem, layout)
        k_cache, v_cache = paged.k_cache.cuda(), paged.v_cache.cuda()
        slots = torch.tensor([0, 17, -1, 33]).cuda()
        k, v = torch.randn(4, 2, 64).bfloat16().cuda(), torch.randn(4, 2, 64).bfloat16().cuda()
        ops.write_kv(k, v, k_cache, v_cache, slots, layout=layout, k_scale=0.5)
        ops.copy_blocks([k_cache, v_cache], torch.tensor([[0, 1]]).cuda())
        tables = (paged.block_table.cuda(), paged.seq_lens.cuda())
        ops.gather_kv(k_cache, v_cache, *tables, layout=layout)
    state = (torch.randn(5, 4, 64).bfloat16().cuda(), torch.randn(5, 4).cuda())
    ops.merge_states(*state, *state)


def main() -> None:
    """Runs the sweep and reports."""
    sweep_decode()
    sweep_prefill()
    sweep_cache()
    torch.cuda.synchronize()
    calls = counters.snapshot()
    print(calls)
    if not calls or any(not name.endswith("[native]") for name in calls):
        sys.exit("some calls were not served by kernels")


if __name__ == "__main__":
    main()
