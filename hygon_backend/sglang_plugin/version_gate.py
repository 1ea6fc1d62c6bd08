"""Refuses SGLang versions this adapter was not tested with, before anything of SGLang is touched."""

from __future__ import annotations

from collections.abc import Mapping

from hygon_backend import engine_gate

SUPPORTED_VERSIONS = ("0.5.23",)
"""SGLang releases whose interfaces the tests of this project run against.

Exact ones: SGLang changes what a backend must offer from one patch release to the next."""


def installed_version() -> str | None:
    """Version of the installed SGLang, from package metadata; None when there is none."""
    return engine_gate.version_of("sglang")


def refusal(sglang_version: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the sentence that refuses `sglang_version`, or None when it is supported."""
    supported = ", ".join(SUPPORTED_VERSIONS)
    return engine_gate.refusal("SGLang", SUPPORTED_VERSIONS, supported, sglang_version, environment)
