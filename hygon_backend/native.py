"""Loads the extension module `hygon_backend._C`, or says in one sentence why it cannot be loaded.

Importing this module loads nothing, so code that can do without the extension may always import it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import torch

_MODULE = "hygon_backend._C"

TORCH_PATH_VARIABLE = "HYGON_BACKEND_TORCH_PATH"
"""Environment variable: 1 makes the operators run composed from PyTorch operations on a card too.

Without it a missing or broken extension is an error there: kernels that silently do not run would be
noticed by nothing but their speed."""

_emulation: ContextVar[ModuleType | None] = ContextVar("_emulation", default=None)


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


def module_for(device: torch.device) -> ModuleType | None:
    """Returns the module whose kernels work on a device's memory, None where PyTorch has to do.

    Raises:
        ImportError: the device is a card, and the extension is missing, does not load or was built
            without kernels.
        ValueError: `HYGON_BACKEND_TORCH_PATH` is neither 0 nor 1.
    """
    if device.type == "cpu":
        return _emulation.get()
    if device.type != "cuda" or _torch_path_is_asked_for():
        return None
    return _load_with_kernels()


@contextmanager
def emulated(module: ModuleType) -> Iterator[None]:
    """Lets a module whose kernels work on host memory serve the CPU; for tests."""
    token = _emulation.set(module)
    try:
        yield
    finally:
        _emulation.reset(token)


def _torch_path_is_asked_for() -> bool:
    value = os.environ.get(TORCH_PATH_VARIABLE, "0")
    if value not in ("0", "1", ""):
        raise ValueError(f"{TORCH_PATH_VARIABLE} is {value!r}, but must be 0 or 1")
    return value == "1"


@cache
def _load_with_kernels() -> ModuleType:
    module = _load()
    info: BuildInfo = module.build_info()
    if not info["kernels"]:
        raise ImportError(
            f"hygon_backend was built for target {info['target']}, without kernels, but is to work on a "
            "card: build again where the card's toolkit is found, or with HYGON_BACKEND_TARGET set, or "
            f"set {TORCH_PATH_VARIABLE}=1 to compose the operators from PyTorch operations",
            name=_MODULE,
        )
    return module


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
