"""Wrong use ends in one clear sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from hygon_backend.errors import InvalidArgumentError, UnsupportedError
from hygon_backend.sglang_plugin import options, support
from hygon_backend.sglang_plugin.attention import HygonAttentionBackend
from tests.sglang_plugin.engines import refused_engine
from tests.sglang_plugin.scene import Scene, make_layer, make_pool, make_runner

HND = "SGLANG_USE_HND_KVCACHE asks for head-major pages, but 'hygon' reads token-major (bshd) pages: unset it"


def test_head_major_pages_are_refused_before_a_process_starts(model_dir: Path) -> None:
    text = refused_engine(model_dir, {"SGLANG_USE_HND_KVCACHE": "1"})
    assert HND in text
    assert "Load weight begin" not in text


def test_unsupported_head_size_is_refused_by_the_backend(model_dir: Path) -> None:
    text = refused_engine(model_dir, json_model_override_args='{"head_dim": 320}')
    assert "head_dim is 320, but 'hygon' supports at most 256" in text


def test_unknown_backend_is_refused_by_sglang(model_dir: Path) -> None:
    assert "hygone" in refused_engine(model_dir, attention_backend="hygone")


def server_args(**changes: Any) -> SimpleNamespace:  # noqa: ANN401
    """The options that our platform looks at; all left out, with `changes` applied."""
    return SimpleNamespace(**{"speculative_algorithm": None, "page_size": None} | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"speculative_algorithm": "NGRAM"},
            "speculative_algorithm is NGRAM, but hygon_backend's CPU platform has none without sgl-kernel, "
            "which holds SGLang's tree kernels",
        ),
        ({"page_size": 512}, "page_size is 512, but 'hygon' supports 1 to 256 tokens"),
        ({"page_size": 0}, "page_size is 0, but 'hygon' supports 1 to 256 tokens"),
    ],
)
def test_options_are_refused_by_the_platform(changes: dict[str, Any], sentence: str) -> None:
    options.check_options(server_args(page_size=256))
    with pytest.raises(UnsupportedError) as caught:
        options.check_options(server_args(**changes))
    assert str(caught.value) == sentence


def test_bad_partition_size_is_refused_before_the_engine_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PA_PARTITION_SIZE", "many")
    with pytest.raises(InvalidArgumentError, match="PA_PARTITION_SIZE is 'many', but must be a whole number"):
        options.check_options(server_args())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"use_mla_backend": True},
            "the model uses multi-head latent attention (MLA), which 'hygon' does not support",
        ),
        (
            {"model_config": SimpleNamespace(is_encoder_decoder=True, context_len=8)},
            "the model has cross-attention layers, which 'hygon' does not support",
        ),
        (
            {"dtype": torch.float64},
            "dtype is torch.float64, but 'hygon' supports torch.float16, torch.bfloat16, torch.float32",
        ),
        ({"page_size": 300}, "page_size is 300, but 'hygon' supports 1 to 256 tokens"),
        (
            {"kv_index_translator": SimpleNamespace(is_translating=True)},
            "the unified memory pool moves pages around, which 'hygon' does not follow",
        ),
    ],
)
def test_runners_are_refused_when_the_backend_is_made(changes: dict[str, Any], sentence: str) -> None:
    pool = make_pool(16)
    HygonAttentionBackend(make_runner(pool, 16))
    with pytest.raises(UnsupportedError) as caught:
        HygonAttentionBackend(make_runner(pool, **{"page_size": 16} | changes))
    assert str(caught.value) == sentence


class PoolOfSomeoneElse(MHATokenToKVPool):
    """A pool whose buffers may lie otherwise."""


def test_pools_that_lie_otherwise_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert support.explain_pool(make_pool(16), 16) is None
    plain = make_pool(16)
    other = object.__new__(PoolOfSomeoneElse)
    other.__dict__.update(plain.__dict__)
    assert "the KV cache is a PoolOfSomeoneElse, but 'hygon' reads an MHATokenToKVPool" in str(
        support.explain_pool(other, 16)
    )
    latent = object.__new__(MLATokenToKVPool)
    assert "the KV cache is a MLATokenToKVPool" in str(support.explain_pool(latent, 16))
    wide = make_pool(16, head_dim=257)
    assert support.explain_pool(wide, 16) == "head_dim is 257, but 'hygon' supports at most 256"
    values = make_pool(16, v_head_dim=300)
    assert support.explain_pool(values, 16) == "v_head_dim is 300, but 'hygon' supports at most 256"
    odd = make_pool(16, size=2040)
    assert (
        support.explain_pool(odd, 16)
        == "the KV pool has 2040 tokens, but needs a multiple of the page size, 16"
    )
    whole = make_pool(16, torch.int8)
    assert "the KV cache holds torch.int8, but 'hygon' supports torch.float16" in str(
        support.explain_pool(whole, 16)
    )
    major = make_pool(16)
    major.kv_cache_layout = "page_major"
    assert support.explain_pool(major, 16) == (
        "the KV cache layout is page_major, but 'hygon' reads nhd (bshd pages)"
    )
    monkeypatch.setenv("SGLANG_USE_HND_KVCACHE", "1")
    assert support.explain_pool(make_pool(16), 16) == HND


def changed_layer(**changes: object) -> object:
    """A layer with attributes that its constructor does not take."""
    layer = make_layer()
    for name, value in changes.items():
        setattr(layer, name, value)
    return layer


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"is_cross_attention": True}, "layer 0 is a cross-attention layer, which 'hygon' does not support"),
        (
            {"attn_type": AttentionType.DECODER_BIDIRECTIONAL},
            "layer 0 has the attention type decoder_bidirectional, but 'hygon' supports decoder and "
            "encoder_only",
        ),
        (
            {"attn_type": AttentionType.ENCODER_ONLY, "sliding_window_size": 4},
            "layer 0 is an encoder layer with a sliding window, which 'hygon' does not support",
        ),
        (
            {"pos_encoding_mode": "ALIBI"},
            "layer 0 has pos_encoding_mode ALIBI, but 'hygon' supports NONE",
        ),
        (
            {"logit_cap": 3.0, "logit_capping_method": "clip"},
            "layer 0 has logit_capping_method clip, but 'hygon' supports tanh",
        ),
        (
            {"xai_temperature_len": 1024},
            "layer 0 scales by temperature length, which 'hygon' does not support",
        ),
        ({"use_irope": True}, "layer 0 attends in chunks (iRoPE), which 'hygon' does not support"),
    ],
)
def test_layers_are_refused_at_their_first_call(changes: dict[str, object], sentence: str) -> None:
    assert support.explain_layer(make_layer()) is None
    assert support.explain_layer(changed_layer(**changes)) == sentence
    scene = Scene(prefix=[3], extend=[1])
    scene.layer = changed_layer(**changes)
    with pytest.raises(UnsupportedError) as caught:
        scene.run(scene.batch(ForwardMode.DECODE))
    assert str(caught.value) == sentence


def test_unknown_call_options_are_named() -> None:
    scene = Scene(prefix=[3], extend=[1])
    batch = scene.batch(ForwardMode.DECODE)
    scene.run(batch, sinks=None, k_rope=None)
    with pytest.raises(UnsupportedError) as caught:
        scene.run(batch, k_rope=torch.zeros(1), rel_bias=torch.zeros(1))
    assert str(caught.value) == (
        "the model calls attention with k_rope, rel_bias, but 'hygon' knows sinks only"
    )


def test_diffusion_models_are_refused() -> None:
    scene = Scene(prefix=[0], extend=[4])
    with pytest.raises(UnsupportedError, match="diffusion language models are not supported"):
        scene.run(scene.batch(ForwardMode.DLLM_EXTEND))
