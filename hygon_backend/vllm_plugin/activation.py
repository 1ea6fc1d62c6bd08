"""Decides whether this machine's vLLM should run on our platform."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hygon_backend.device import Device, Vendor, detect
from hygon_backend.engine_gate import FORCE_VARIABLE
from hygon_backend.vllm_plugin.version_gate import (
    UnsupportedEngineError,
    brings_cpu_platform,
    installed_version,
    refusal,
)

CPU_PLATFORM = "hygon_backend.vllm_plugin.platform.HygonCpuPlatform"


@dataclass(frozen=True)
class Decision:
    """What to tell vLLM: a platform class path or None, and the reason in one sentence."""

    platform: str | None
    reason: str


def decide(devices: Sequence[Device], has_cpu_platform: bool, environment: Mapping[str, str]) -> Decision:
    """Chooses the platform.

    Where stock vLLM already works (an NVIDIA or AMD card, or vLLM's own CPU build) an installed
    plugin must not change anything unless the user asks for it.

    Args:
        devices: accelerators of this machine.
        has_cpu_platform: the installed vLLM is built for the CPU.
        environment: environment variables.
    """
    forced = environment.get(FORCE_VARIABLE) == "1"
    names = ", ".join(sorted({str(device) for device in devices}))
    if forced:
        return Decision(CPU_PLATFORM, f"{FORCE_VARIABLE}=1 is set: running on the CPU")
    ask = f"set {FORCE_VARIABLE}=1 to run hygon_backend on the CPU instead"
    if any(device.vendor is Vendor.HYGON for device in devices):
        return Decision(None, f"found {names}, which this release cannot serve on yet; {ask}")
    if devices:
        return Decision(None, f"found {names}, which stock vLLM serves: staying out of the way; {ask}")
    if has_cpu_platform:
        return Decision(None, f"this vLLM brings its own CPU platform: staying out of the way; {ask}")
    return Decision(CPU_PLATFORM, "no accelerator found: running on the CPU")


def activate() -> str | None:
    """Looks at the machine, decides, says so once and returns the platform class path or None.

    Raises:
        UnsupportedEngineError: our platform is wanted, but this vLLM version is not supported.
    """
    decision = decide(detect(), brings_cpu_platform(), os.environ)
    if decision.platform is not None:
        sentence = refusal(installed_version(), os.environ)
        if sentence is not None:
            raise UnsupportedEngineError(sentence)
    _announce(decision.reason)
    return decision.platform


@cache
def _announce(reason: str) -> None:
    """Logs the reason once a process: vLLM asks for the platform twice.

    Through vLLM's logger by name, so that its level and format apply. Its `info_once` cannot be
    used: it looks at the distributed state, which is still being imported at this point.
    """
    logging.getLogger("vllm.hygon_backend").info("hygon_backend: %s", reason)
