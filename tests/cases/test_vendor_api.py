"""The vendor's entry points: the same answers under other names."""

import math

import pytest
import torch
from support.backends import Backend
from support.check import assert_lse, assert_output
from support.paging import page
from support.problem import Rules, make_problem

from hygon_backend import ops, vendor_api
from hygon_backend.errors import InvalidArgumentError
from hygon_backend.kv_layout import KVLayout

LAYOUTS = [(0, KVLayout.BHSD), (1, KVLayout.BSHD), (2, KVLayout.BSHD)]


@pytest.fixture
def _on_the_backend(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrappers call `ops`; here they call the operators of the implementation under test."""
    monkeypatch.setattr(vendor_api, "ops", backend.ops)


@pytest.mark.usefixtures("_on_the_backend")
@pytest.mark.parametrize(("code", "layout"), LAYOUTS)
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("causal", [True, False])
def test_prefill(backend: Backend, code: int, layout: KVLayout, window: int | None, causal: bool) -> None:
    """No key to the right is the causal mask, whether it is asked for or not."""
    problem = make_problem([9, 3], [40, 3], rules=Rules(window=window, softcap=20.0))
    paged = page(problem, layout)
    result = vendor_api.hg_prefix_prefill_varlen_fwd(
        *(backend.adopt(x) for x in (problem.q, paged.k_cache, paged.v_cache, paged.block_table)),
        backend.adopt(problem.cu_seqlens_q),
        backend.adopt(paged.seq_lens),
        layout=code,
        causal=causal,
        window_size=(-1 if window is None else window - 1, 0),
        softcap=20.0,
        return_softmax_lse=True,
    )
    assert isinstance(result, tuple)
    assert_output(result[0].cpu(), problem)
    assert_lse(result[1].cpu(), problem)


@pytest.mark.usefixtures("_on_the_backend")
@pytest.mark.parametrize(("code", "layout"), LAYOUTS)
def test_decode(backend: Backend, code: int, layout: KVLayout) -> None:
    problem = make_problem([1, 1], [40, 3])
    paged = page(problem, layout)
    inputs = [backend.adopt(x) for x in (problem.q, paged.k_cache, paged.v_cache)]
    table, lengths = backend.adopt(paged.block_table), backend.adopt(paged.seq_lens)
    out = vendor_api.hg_prefix_decode_varlen_fwd(*inputs, table, lengths, layout=code)
    assert isinstance(out, torch.Tensor)
    assert_output(out.cpu(), problem)
    out.fill_(math.nan)
    vendor_api.paged_attention(out, *inputs, 1 / math.sqrt(64), table, lengths, layout=code)
    assert_output(out.cpu(), problem)


def test_windows_to_the_right_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"window_size\[1\] is 3"):
        vendor_api.hg_prefix_decode_varlen_fwd(*[torch.empty(0)] * 5, window_size=(-1, 3))
    with pytest.raises(InvalidArgumentError, match=r"window_size\[0\] is -2"):
        vendor_api.hg_prefix_decode_varlen_fwd(*[torch.empty(0)] * 5, window_size=(-2, -1))


def test_the_wrappers_serve_the_package_itself() -> None:
    assert vendor_api.ops is ops
