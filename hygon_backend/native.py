"""Loads the extension module `hygon_backend._C`, or says in one sentence why it cannot be loaded.

Importing this module loads nothing, so code that can do without the extension may always import it.
"""

import importlib
from types import ModuleType
from typing import TypedDict

_MODULE = "hygon_backend._C"


class BuildInfo(TypedDict):
    """How the extension was built."""

    version: str
    target: str
    """`host`, `hcu`, `amd` or `nvidia`."""
    archs: list[str]
    compiler: str
    """Name and version of the compiler that made the target's code."""
    cxx_standard: int
    kernels: list[str]
    """Names of the device kernel sources compiled in; empty on the host target."""
    note: str
    """What is special about this build; empty when nothing is."""


def build_info() -> BuildInfo:
    """Returns how the extension was built; raises ImportError with the fix if it cannot be loaded."""
    info: BuildInfo = _load().build_info()
    return info


def is_available() -> bool:
    """Tells whether the extension can be loaded; when it cannot, `build_info` raises the reason."""
    try:
        _load()
    except ImportError:
        return False
    return True


def _load() -> ModuleType:
    try:
        return importlib.import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        raise ImportError(
            "hygon_backend was not built: run `pip install --no-build-isolation .`", name=_MODULE
        ) from None
    except ImportError as error:
        raise ImportError(
            f"hygon_backend was built, but {_MODULE} does not load (the loader's message: {error}): "
            "load the toolkit's environment, or build again with `pip install --no-build-isolation .`",
            name=_MODULE,
            path=error.path,
        ) from error
