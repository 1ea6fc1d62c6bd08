"""Wrong use ends in one clear sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.vllm_plugin.engines import engine_environment

ENGINE = """
import sys, vllm
options = dict(dtype="float32", max_model_len=256, enforce_eager=True, kv_cache_memory_bytes=1 << 28)
vllm.LLM(model=sys.argv[1], load_format="dummy", **options, **eval(sys.argv[2]))
"""


def start_engine(model: Path, options: dict[str, object], **environment: str) -> str:
    """Starts an engine that must not come up; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, str(model), repr(options)],
        env=engine_environment(**environment),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode != 0, done.stdout[-2000:]
    return done.stdout + done.stderr


def install_fake_distribution(folder: Path, name: str, version: str, entry_points: str = "") -> None:
    """Lays a package's metadata into `folder`, which goes on PYTHONPATH ahead of site-packages."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def import_platform(folder: Path) -> subprocess.CompletedProcess[str]:
    """Lets vLLM choose its platform with the distributions laid into `folder`."""
    return subprocess.run(
        [sys.executable, "-c", "from vllm.platforms import current_platform; print(current_platform)"],
        env=engine_environment(PYTHONPATH=str(folder)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_unsupported_vllm_version_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    install_fake_distribution(tmp_path, "vllm", "0.99.1")
    done = import_platform(tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "hygon_backend supports vLLM 0.33.x, but vLLM 0.99.1 is installed: install a supported version, or "
        "set HYGON_BACKEND_SKIP_VERSION_CHECK=1 to try at your own risk."
    )
    assert "Traceback" not in done.stderr


def test_two_platform_plugins_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "rival.py").write_text("def activate():\n    return 'rival.Platform'\n")
    install_fake_distribution(
        tmp_path, "rival-platform", "1.0", "[vllm.platform_plugins]\nrival = rival:activate\n"
    )
    done = import_platform(tmp_path)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "Only one platform plugin can be activated" in last
    assert "hygon" in last
    assert "rival" in last


def test_head_major_layout_is_refused(model_dir: Path) -> None:
    text = start_engine(model_dir, {}, VLLM_KV_CACHE_LAYOUT="HND")
    assert (
        "VLLM_KV_CACHE_LAYOUT=HND asks for head-major pages, but HYGON_ATTN stores token-major (bshd) "
        "pages: unset it, or choose LHBNC (the default) or NHD"
    ) in text


def test_unsupported_head_size_is_refused(model_dir: Path) -> None:
    options: dict[str, object] = {"hf_overrides": {"head_dim": 320}}
    text = start_engine(model_dir, options)
    assert "head_size is 320, but HYGON_ATTN supports at most 256" in text


def test_unsupported_kv_cache_dtype_is_refused(model_dir: Path) -> None:
    text = start_engine(model_dir, {"kv_cache_dtype": "int8_per_token_head"})
    assert (
        "kv_cache_dtype is int8_per_token_head, but HYGON_ATTN supports auto, float16, bfloat16, fp8, "
        "fp8_e4m3, fp8_e5m2"
    ) in text


def test_unknown_kv_cache_dtype_is_refused_by_vllm(model_dir: Path) -> None:
    text = start_engine(model_dir, {"kv_cache_dtype": "fp9"})
    assert "fp9" in text
    assert "fp8_e4m3" in text, "the message lists what is allowed"


def test_other_attention_backend_is_refused(model_dir: Path) -> None:
    text = start_engine(model_dir, {"attention_backend": "FLASH_ATTN"})
    assert (
        "attention backend FLASH_ATTN is not available on hygon_backend's CPU platform: use HYGON_ATTN, or "
        "leave --attention-backend out"
    ) in text


def selector_config(**changes: object) -> SimpleNamespace:
    """A selector configuration that the backend accepts, with `changes` applied."""
    from vllm.v1.attention.selector import AttentionSelectorConfig

    base = AttentionSelectorConfig(head_size=64, dtype=torch.float32, kv_cache_dtype="auto", block_size=16)
    return base._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dtype": torch.float64}, "dtype is torch.float64, but HYGON_ATTN supports torch.float16, "),
        ({"attn_type": "encoder_only"}, "attention type is encoder_only, but HYGON_ATTN supports decoder"),
        ({"block_size": 512}, "block_size is 512, but HYGON_ATTN supports 1 to 256 tokens"),
    ],
)
def test_unsupported_values_are_named(changes: dict[str, object], sentence: str) -> None:
    from hygon_backend.vllm_plugin.support import explain

    assert explain(selector_config()) is None
    found = explain(selector_config(**changes))
    assert found is not None
    assert sentence in found


@pytest.mark.parametrize(
    ("flag", "meaning"),
    [
        ("use_mla", "multi-head latent attention"),
        ("use_sparse", "sparse attention"),
        ("use_mm_prefix", "bidirectional multimodal prefixes"),
        ("use_per_head_quant_scales", "per-head scales from the checkpoint"),
        ("use_non_causal", "non-causal attention"),
        ("use_batch_invariant", "batch-invariant mode"),
        ("use_pcp", "prefill context parallelism"),
        ("use_adaptive_verification", "adaptive verification"),
        ("use_kv_connector", "a KV connector"),
        ("use_dcp", "decode context parallelism"),
        ("use_rswa", "reference sliding-window attention"),
    ],
)
def test_unsupported_flags_are_named(flag: str, meaning: str) -> None:
    from hygon_backend.vllm_plugin.support import explain

    assert explain(selector_config(**{flag: True})) == (
        f"the model or configuration asks for {meaning}, which HYGON_ATTN does not support"
    )


def test_every_setting_that_vllm_can_ask_for_is_known() -> None:
    """A field that a later vLLM adds must be judged by a person, not passed over."""
    from hygon_backend.vllm_plugin.support import explain

    config = selector_config()
    served = {"has_sink", "has_sliding_window"}
    valued = {"head_size", "dtype", "kv_cache_dtype", "block_size", "attn_type"}
    for name in set(config._fields) - valued:
        found = explain(selector_config(**{name: True}))
        assert (found is None) == (name in served), name


def test_bad_partition_size_is_refused_before_the_engine_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from hygon_backend.vllm_plugin.platform import HygonCpuPlatform

    monkeypatch.setenv("PA_PARTITION_SIZE", "many")
    with pytest.raises(ValueError, match="PA_PARTITION_SIZE is 'many', but must be a whole number"):
        HygonCpuPlatform.check_and_update_config(features())


@pytest.mark.parametrize("size", [1, 24, 64, 80, 96, 128, 160, 192, 256])
def test_head_sizes_up_to_the_limit_are_accepted(size: int) -> None:
    from hygon_backend.vllm_plugin.support import explain

    assert explain(selector_config(head_size=size)) is None


def features(**changes: object) -> SimpleNamespace:
    """The parts of a `VllmConfig` that decide about features; a plain decoder with `changes` applied."""
    model = SimpleNamespace(
        is_hybrid=changes.pop("is_hybrid", False), is_attention_free=changes.pop("is_attention_free", False)
    )
    plain = {"speculative_config": None, "model_config": model, "use_v2_model_runner": False}
    return SimpleNamespace(**plain | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"speculative_config": object()},
            "speculative decoding is not supported on hygon_backend's CPU platform: it needs Triton",
        ),
        (
            {"is_hybrid": True},
            "models with state-space layers are not supported on hygon_backend's CPU platform",
        ),
        (
            {"is_attention_free": True},
            "models with state-space layers are not supported on hygon_backend's CPU platform",
        ),
        (
            {"use_v2_model_runner": True},
            "vLLM's V2 model runner is not supported on hygon_backend's CPU platform, it needs Triton on a "
            "card: set VLLM_USE_V2_MODEL_RUNNER=0",
        ),
    ],
)
def test_features_without_kernels_are_refused(changes: dict[str, object], sentence: str) -> None:
    from hygon_backend.vllm_plugin.platform import check_features

    check_features(features())
    with pytest.raises(NotImplementedError) as caught:
        check_features(features(**changes))
    assert str(caught.value) == sentence
