"""Fixtures shared by the operator suites; their `conftest.py` import what they use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from support.backends import BACKENDS, Backend
from support.emulation import emulated_module
from support.problem import default_dtype


@pytest.fixture(scope="session", params=BACKENDS.values(), ids=BACKENDS.keys())
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each implementation under test in turn; problems are drawn in its element type meanwhile."""
    if request.param.name == "emulation":
        # Built ahead of the first test, in view: it takes minutes.
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            emulated_module()
    token = default_dtype.set(request.param.dtype)
    yield request.param
    default_dtype.reset(token)


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """Runs torch on one thread: on tensors this small a second one only waits for the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
