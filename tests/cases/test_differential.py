"""Drawn calls of every operator against the exact answer; `pytest -m full` draws 2,000 of each."""

import copy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.backends import Backend
from support.bits import storage_bytes
from support.check import assert_lse, assert_output, run
from support.draws import Call, Write, attention_calls, writes
from support.paging import make_pool

from hygon_backend import reference

many = settings(
    max_examples=2000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def draw_and_check(backend: Backend, operator: str, data: st.DataObject) -> None:
    for_kernels = backend.dtype is not torch.float32
    check_attention(backend, operator, data.draw(attention_calls(operator, for_kernels=for_kernels)))


def check_attention(backend: Backend, operator: str, call: Call) -> None:
    out, lse = run(backend, operator, call.problem, call.paged, **call.options)
    assert_output(out, call.problem, ulps=2)
    if call.options["return_lse"]:
        assert_lse(lse, call.problem)


def check_write(backend: Backend, write: Write) -> None:
    """Compares the whole pool, gaps included, with what the reference makes of it."""
    like_k, like_v = (x.new_empty(1, *x.shape[1:], dtype=write.cache_dtype) for x in (write.k, write.v))
    empty = make_pool(write.num_blocks, write.block_size, like_k, like_v, write.layout, write.style)
    want = copy.deepcopy(empty)
    options = {"layout": write.layout, **write.scales}
    reference.write_kv(write.k, write.v, *want, write.slots, **options)
    got = backend.adopt_all(*empty)
    options = {name: backend.adopt_optional(value) for name, value in options.items()}
    tokens = [backend.adopt(x) for x in (write.k, write.v)]
    backend.ops.write_kv(*tokens, *got, backend.adopt(write.slots), **options, validate=True)
    for written, expected in zip(got, want, strict=True):
        assert torch.equal(storage_bytes(written), storage_bytes(expected))


@given(data=st.data())
def test_decode(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "paged_decode", data)


@given(data=st.data())
def test_prefix_prefill(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "prefix_prefill", data)


@given(data=st.data())
def test_ragged_prefill(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "ragged_prefill", data)


@given(write=writes())
def test_write(backend: Backend, write: Write) -> None:
    check_write(backend, write)


@pytest.mark.full
@many
@given(data=st.data())
def test_decode_full(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "paged_decode", data)


@pytest.mark.full
@many
@given(data=st.data())
def test_prefix_prefill_full(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "prefix_prefill", data)


@pytest.mark.full
@many
@given(data=st.data())
def test_ragged_prefill_full(backend: Backend, data: st.DataObject) -> None:
    draw_and_check(backend, "ragged_prefill", data)


@pytest.mark.full
@many
@given(write=writes())
def test_write_full(backend: Backend, write: Write) -> None:
    check_write(backend, write)
