"""Decides whether this machine's SGLang should run on our platform."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hygon_backend.device import Device, Vendor, detect
from hygon_backend.engine_gate import FORCE_VARIABLE, UnsupportedEngineError
from hygon_backend.sglang_plugin import shims
from hygon_backend.sglang_plugin.registration import BACKEND_NAME, check_native_module
from hygon_backend.sglang_plugin.version_gate import installed_version, refusal

CPU_PLATFORM = "hygon_backend.sglang_plugin.platform:HygonCpuPlatform"

OWN_CPU_VARIABLE = "SGLANG_USE_CPU_ENGINE"
"""SGLang's own switch for its CPU engine, which needs the CPU build of sgl-kernel."""


@dataclass(frozen=True)
class Decision:
    """What to tell SGLang: a platform class path or None, and the reason in one sentence."""

    platform: str | None
    reason: str


def decide(devices: Sequence[Device], environment: Mapping[str, str]) -> Decision:
    """Chooses the platform.

    Where stock SGLang has a platform of its own (a card, or its CPU engine) an installed plugin must
    not change anything unless the user asks for it: there `--attention-backend hygon` alone decides.

    Args:
        devices: accelerators of this machine.
        environment: environment variables.
    """
    if environment.get(FORCE_VARIABLE) == "1":
        return Decision(CPU_PLATFORM, f"{FORCE_VARIABLE}=1 is set: running on the CPU")
    ask = f"set {FORCE_VARIABLE}=1 to run hygon_backend on the CPU instead"
    names = ", ".join(sorted({str(device) for device in devices}))
    if any(device.vendor is Vendor.HYGON for device in devices):
        return Decision(
            None,
            f"found {names}, for which SGLang's own platform is used: --attention-backend {BACKEND_NAME} "
            f"asks for our kernels, which no engine has run on such a card yet; {ask}",
        )
    if devices:
        return Decision(None, f"found {names}, which stock SGLang serves: staying out of the way; {ask}")
    if environment.get(OWN_CPU_VARIABLE, "0") == "1":
        return Decision(None, f"{OWN_CPU_VARIABLE}=1 is set: staying out of the way; {ask}")
    return Decision(CPU_PLATFORM, "no accelerator found: running on the CPU")


def activate() -> str | None:
    """Looks at the machine, decides, says so and returns the platform class path or None.

    Raises:
        UnsupportedEngineError: our platform is wanted, but this SGLang version is not supported or our
            extension module is broken.
    """
    decision = decide(detect(), os.environ)
    if decision.platform is not None:
        sentence = refusal(installed_version(), os.environ)
        if sentence is not None:
            raise UnsupportedEngineError(sentence)
        check_native_module()
        shims.install()
    logging.getLogger("sglang.hygon_backend").info("hygon_backend: %s", decision.reason)
    return decision.platform
