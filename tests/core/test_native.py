"""Which module serves a device, and what happens where none can."""

import importlib
from types import ModuleType, SimpleNamespace

import pytest
import torch

from hygon_backend import counters, dispatch, native

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.TORCH_PATH_VARIABLE, raising=False)
    native._load_with_kernels.cache_clear()
    counters.reset()


def install(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """Puts a module in the extension's place; an exception stands for one that does not load."""

    def load(name: str) -> object:
        assert name == "hygon_backend._C"
        if isinstance(module, Exception):
            raise module
        return module

    monkeypatch.setattr(importlib, "import_module", load)


def built_for(target: str, kernels: list[str]) -> SimpleNamespace:
    return SimpleNamespace(build_info=lambda: {"target": target, "kernels": kernels})


def test_the_cpu_has_no_module() -> None:
    assert native.module_for(CPU) is None


def test_a_module_over_emulated_kernels_serves_the_cpu_while_asked_to() -> None:
    module = ModuleType("emulation")
    with native.emulated(module):
        assert native.module_for(CPU) is module
        assert dispatch.choose(CPU, supported=True) is module
        assert dispatch.choose(CPU, supported=False) is None
    assert native.module_for(CPU) is None


def test_a_served_call_is_counted_by_what_served_it() -> None:
    module = ModuleType("kernels")
    for device, server in ((CPU, module), (CPU, None), (CARD, module), (CARD, None)):
        dispatch.count("write_kv", device, server)
    assert counters.snapshot() == {"write_kv[emulated]": 1, "write_kv[native]": 1, "write_kv[torch]": 2}


def test_a_failure_ends_the_emulation() -> None:
    def fail() -> None:
        with native.emulated(ModuleType("emulation")):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert native.module_for(CPU) is None


def test_a_card_is_served_by_an_extension_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    module = built_for("nvidia", ["kv_cache"])
    install(monkeypatch, module)
    assert native.module_for(CARD) is module
    assert dispatch.choose(CARD, supported=True) is module
    assert dispatch.choose(CARD, supported=False) is None


def test_an_extension_without_kernels_is_an_error_on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, built_for("host", []))
    with pytest.raises(ImportError, match="built for target host, without kernels"):
        native.module_for(CARD)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("no", name="hygon_backend._C"), "was not built"),
        (ImportError("libcudart.so.13: cannot open", path="_C.so"), "libcudart.so.13: cannot open"),
    ],
)
def test_an_extension_that_does_not_load_is_an_error_on_a_card(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    install(monkeypatch, error)
    for supported in (True, False):
        with pytest.raises(ImportError, match=sentence):
            dispatch.choose(CARD, supported)


def test_the_torch_path_on_a_card_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, built_for("host", []))
    monkeypatch.setenv(native.TORCH_PATH_VARIABLE, "1")
    assert native.module_for(CARD) is None
    monkeypatch.setenv(native.TORCH_PATH_VARIABLE, "0")
    with pytest.raises(ImportError):
        native.module_for(CARD)


def test_the_variable_takes_0_and_1_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.TORCH_PATH_VARIABLE, "yes")
    with pytest.raises(ValueError, match="HYGON_BACKEND_TORCH_PATH is 'yes', but must be 0 or 1"):
        native.module_for(CARD)
