"""When our platform takes over, when it stays out, and what it says."""

from __future__ import annotations

import pytest

from hygon_backend.device import Device, Vendor
from hygon_backend.engine_gate import SKIP_VARIABLE
from hygon_backend.sglang_plugin.activation import CPU_PLATFORM, decide
from hygon_backend.sglang_plugin.version_gate import installed_version, refusal

NVIDIA = Device(Vendor.NVIDIA, "")
MI300 = Device(Vendor.AMD, "gfx942")
K100 = Device(Vendor.HYGON, "gfx928")
ASK = "; set HYGON_BACKEND_FORCE=1 to run hygon_backend on the CPU instead"


def test_takes_over_where_there_is_no_card() -> None:
    decision = decide([], {})
    assert decision.platform == CPU_PLATFORM
    assert decision.reason == "no accelerator found: running on the CPU"


@pytest.mark.parametrize(
    ("devices", "environment", "reason"),
    [
        ([NVIDIA, NVIDIA], {}, "found NVIDIA, which stock SGLang serves: staying out of the way"),
        ([MI300], {}, "found AMD gfx942, which stock SGLang serves: staying out of the way"),
        ([], {"SGLANG_USE_CPU_ENGINE": "1"}, "SGLANG_USE_CPU_ENGINE=1 is set: staying out of the way"),
        (
            [K100, MI300],
            {},
            "found AMD gfx942, Hygon gfx928, for which SGLang's own platform is used: "
            "--attention-backend hygon asks for our kernels, which no engine has run on such a card yet",
        ),
    ],
)
def test_stays_out_unless_forced(devices: list[Device], environment: dict[str, str], reason: str) -> None:
    decision = decide(devices, environment)
    assert decision.platform is None
    assert decision.reason == reason + ASK
    forced = decide(devices, environment | {"HYGON_BACKEND_FORCE": "1"})
    assert forced.platform == CPU_PLATFORM
    assert "HYGON_BACKEND_FORCE=1 is set" in forced.reason
    assert decide(devices, environment | {"HYGON_BACKEND_FORCE": "0"}).platform is None


@pytest.mark.parametrize("version", ["0.5.23", "0.5.23.post1", "0.5.23+cpu"])
def test_the_tested_version_passes_the_gate(version: str) -> None:
    assert refusal(version, {}) is None


@pytest.mark.parametrize("version", ["0.5.22", "0.5.24", "0.5.230", "0.5", "1.0.5.23", "dev", ""])
def test_other_versions_are_refused_unless_skipped(version: str) -> None:
    sentence = refusal(version, {})
    assert sentence is not None
    assert f"supports SGLang 0.5.23, but SGLang {version} is installed" in sentence
    assert refusal(version, {SKIP_VARIABLE: "1"}) is None
    assert refusal(version, {SKIP_VARIABLE: "0"}) == sentence


def test_missing_sglang_is_named() -> None:
    assert refusal(None, {}) == "hygon_backend found no installed SGLang package: install SGLang 0.5.23."


def test_the_installed_sglang_is_the_supported_one() -> None:
    assert refusal(installed_version(), {}) is None
