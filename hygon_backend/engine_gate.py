"""What the engine adapters share: which engine versions are let in, and how a refusal ends the process.

Engines move their plugin interfaces between releases. Reading the installed package's metadata costs
nothing and cannot break on a changed module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

FORCE_VARIABLE = "HYGON_BACKEND_FORCE"
"""Environment variable: 1 runs the engine on our CPU platform even where it could do without."""

SKIP_VARIABLE = "HYGON_BACKEND_SKIP_VERSION_CHECK"
"""Environment variable: 1 lets an untested engine version in."""


class UnsupportedEngineError(SystemExit):
    """The plugin cannot serve this engine installation; ends the process with one sentence.

    A SystemExit on purpose: engines catch every `Exception` of a plugin, log it and go on without the
    plugin, to serve with other kernels than asked for or to fail later without naming the cause.
    """


def version_of(distribution: str) -> str | None:
    """Version of an installed distribution, from its metadata; None when it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def refusal(
    engine: str,
    series: Sequence[str],
    supported: str,
    installed: str | None,
    environment: Mapping[str, str],
) -> str | None:
    """Returns the sentence that refuses an engine version, or None when it is supported.

    Args:
        engine: the engine's name as users write it.
        series: version prefixes that are supported, whole components each: "0.33" lets 0.33.4 in,
            but not 0.330.
        supported: the same for people to read.
        installed: the installed version, None when there is none.
        environment: environment variables.
    """
    if installed is None:
        return f"hygon_backend found no installed {engine} package: install {engine} {supported}."
    if any(re.match(rf"{re.escape(item)}(?!\d)", installed) for item in series):
        return None
    if environment.get(SKIP_VARIABLE) == "1":
        return None
    return (
        f"hygon_backend supports {engine} {supported}, but {engine} {installed} is installed: install a "
        f"supported version, or set {SKIP_VARIABLE}=1 to try at your own risk."
    )
