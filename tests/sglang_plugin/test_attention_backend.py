"""The backend class on SGLang's own pools and layers, without an engine."""

from __future__ import annotations

import pytest
import torch
from sglang.srt.layers.attention.hybrid_attn_backend import HybridAttnBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from hygon_backend import counters, reference
from hygon_backend.errors import UnsupportedError
from tests.sglang_plugin.scene import HEAD_SIZE, HEADS, KV_HEADS, Scene, error

PAGE_SIZES = [1, 16, 32, 64, 128]
TOLERANCE = 1e-5


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_extend_gives_the_reference_output(page_size: int) -> None:
    scene = Scene(prefix=[0, 37, 5, 128], extend=[19, 3, 1, 40], page_size=page_size)
    out = scene.run(scene.batch(ForwardMode.EXTEND))
    assert error(out, scene.expected()) < TOLERANCE


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_decode_gives_the_reference_output(page_size: int) -> None:
    scene = Scene(prefix=[0, 36, 64, 127, 200], extend=[1] * 5, page_size=page_size)
    out = scene.run(scene.batch(ForwardMode.DECODE))
    assert error(out, scene.expected()) < TOLERANCE


@pytest.mark.parametrize("page_size", [1, 64])
def test_mixed_batch_gives_the_reference_output(page_size: int) -> None:
    """Chunked prefill: SGLang appends the decoding requests as extends of one token."""
    scene = Scene(prefix=[64, 0, 30, 99], extend=[50, 17, 1, 1], page_size=page_size)
    out = scene.run(scene.batch(ForwardMode.MIXED))
    assert error(out, scene.expected()) < TOLERANCE


def test_lengths_may_be_unknown_on_the_host() -> None:
    scene = Scene(prefix=[0, 36, 64], extend=[1] * 3)
    out = scene.run(scene.batch(ForwardMode.DECODE, seq_lens_cpu=None))
    assert error(out, scene.expected()) < TOLERANCE
    scene = Scene(prefix=[10, 36, 64], extend=[4, 5, 6])
    unknown = {"seq_lens_cpu": None, "extend_prefix_lens_cpu": None, "extend_seq_lens_cpu": None}
    assert error(scene.run(scene.batch(ForwardMode.EXTEND, **unknown)), scene.expected()) < TOLERANCE


def test_metadata_outlives_the_schedulers_next_step() -> None:
    """With overlap scheduling SGLang changes its tensors while this batch is still running."""
    scene = Scene(prefix=[20, 36], extend=[1, 1])
    batch = scene.batch(ForwardMode.DECODE)
    scene.backend.init_forward_metadata(batch)
    batch.seq_lens.add_(1)
    scene.runner.req_to_token_pool.req_to_token.zero_()
    assert error(scene.forward(batch), scene.expected()) < TOLERANCE


def test_pool_is_read_and_written_in_place() -> None:
    scene = Scene(prefix=[20], extend=[3])
    keys, _ = scene.pool.get_kv_buffer(0)
    k_cache, v_cache = scene.backend._pools.caches(0)
    assert k_cache.data_ptr() == keys.data_ptr()
    assert k_cache.shape == (keys.shape[0] // 16, 16, KV_HEADS, HEAD_SIZE)
    assert v_cache.shape == k_cache.shape
    counters.reset()
    scene.run(scene.batch(ForwardMode.EXTEND))
    assert torch.equal(keys[scene.slots[0][20:]], scene.k)
    assert counters.snapshot() == {"prefix_prefill[torch]": 1, "write_kv[torch]": 1}


def test_cache_is_left_alone_when_asked() -> None:
    scene = Scene(prefix=[20], extend=[1])
    scene.run(scene.batch(ForwardMode.DECODE))
    keys, _ = scene.pool.get_kv_buffer(0)
    before = keys.clone()
    scene.k = scene.k + 1
    scene.run(scene.batch(ForwardMode.DECODE), save_kv_cache=False)
    assert torch.equal(keys.view(torch.int32), before.view(torch.int32))


def test_padded_rows_of_an_extend_get_zeros() -> None:
    scene = Scene(prefix=[7, 9], extend=[4, 5])
    batch = scene.batch(ForwardMode.EXTEND)
    expected_rows = scene.q.shape[0]
    scene.backend.init_forward_metadata(batch)
    q = torch.cat([scene.q, torch.full((3, scene.q.shape[1]), float("nan"))])
    out = scene.backend.forward(q, scene.k, scene.v, scene.layer, batch).view(-1, HEADS, HEAD_SIZE)
    assert error(out[:expected_rows], scene.expected()) < TOLERANCE
    assert (out[expected_rows:] == 0).all()


def test_idle_batch_is_harmless() -> None:
    scene = Scene(prefix=[], extend=[], page_size=16)
    assert scene.run(scene.batch(ForwardMode.IDLE)).shape[0] == 0


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.EXTEND])
def test_modifiers_reach_the_operator(mode: ForwardMode) -> None:
    options = {"logit_cap": 3.0, "sliding_window_size": 5}
    scene = Scene(prefix=[37, 50], extend=[1, 1], layer_options=options)
    sinks = torch.randn(HEADS)
    out = scene.run(scene.batch(mode), sinks=sinks)
    # SGLang's window counts the keys before the query's own.
    assert error(out, scene.expected(window=6, softcap=3.0, sinks=sinks)) < TOLERANCE


def test_encoder_layers_see_both_ways() -> None:
    scene = Scene(prefix=[0, 0], extend=[9, 21], layer_options={"attn_type": AttentionType.ENCODER_ONLY})
    out = scene.run(scene.batch(ForwardMode.EXTEND))
    assert error(out, scene.expected(causal=False)) < TOLERANCE


def test_encoder_layers_refuse_a_cached_prefix() -> None:
    scene = Scene(prefix=[0, 16], extend=[9, 21], layer_options={"attn_type": AttentionType.ENCODER_ONLY})
    with pytest.raises(UnsupportedError, match="use --disable-radix-cache and --chunked-prefill-size -1"):
        scene.run(scene.batch(ForwardMode.EXTEND))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_pool_honours_the_layers_scales(dtype: torch.dtype) -> None:
    scene = Scene(prefix=[20, 33], extend=[5, 7], dtype=dtype)
    scene.layer.k_scale = scene.layer.v_scale = torch.ones(1)
    scene.layer.k_scale_float, scene.layer.v_scale_float = 0.25, 0.5
    scene.k[0, 0, 0] = 1e6  # saturates; torch's own cast would make NaN of it
    out = scene.run(scene.batch(ForwardMode.EXTEND))
    keys, values = scene.pool.get_kv_buffer(0)
    for buffer, given, scale in ((keys, scene.k, 0.25), (values, scene.v, 0.5)):
        want = reference.quantise_fp8(given[0], dtype, scale)
        assert torch.equal(buffer[scene.slots[0][20]].view(torch.uint8), want.view(torch.uint8))
    assert error(out, scene.expected(k_scale=0.25, v_scale=0.5)) < 1e-3


def test_fp8_pool_without_scales_stores_as_is() -> None:
    scene = Scene(prefix=[20], extend=[1], dtype=torch.float8_e4m3fn)
    out = scene.run(scene.batch(ForwardMode.DECODE))
    assert error(out, scene.expected()) < TOLERANCE


def test_layers_with_their_own_rules_do_not_mix() -> None:
    scene = Scene(prefix=[50], extend=[1], layer_options={"sliding_window_size": 3})
    windowed = scene.run(scene.batch(ForwardMode.DECODE))
    scene.layer = Scene(prefix=[1], extend=[1]).layer
    everything = scene.run(scene.batch(ForwardMode.DECODE))
    assert error(windowed, scene.expected(window=4)) < TOLERANCE
    assert error(everything, scene.expected()) < TOLERANCE


def test_works_inside_sglangs_split_of_prefill_and_decode() -> None:
    scene = Scene(prefix=[40], extend=[2])
    split = object.__new__(HybridAttnBackend)
    split.prefill_backend = split.decode_backend = scene.backend
    split.init_forward_metadata(scene.batch(ForwardMode.EXTEND))
    out = split.forward(scene.q, scene.k, scene.v, scene.layer, scene.batch(ForwardMode.EXTEND))
    assert error(out.view(-1, HEADS, HEAD_SIZE), scene.expected()) < TOLERANCE
