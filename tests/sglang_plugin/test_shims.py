"""The stand-ins for what SGLang imports but text models do not use."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.util import find_spec

import pytest

from hygon_backend.errors import UnsupportedError
from hygon_backend.sglang_plugin import shims
from tests.sglang_plugin.engines import engine_environment


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> shims.StandInFinder:
    """A finder of a package that nobody has."""
    made = shims.StandInFinder(["nobody_has_this"])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, made])
    return made


@pytest.mark.usefixtures("finder")
def test_names_can_be_imported_but_not_used() -> None:
    module = importlib.import_module("nobody_has_this.transforms.functional")
    resize = module.resize
    with pytest.raises(UnsupportedError) as caught:
        resize(1, size=2)
    assert str(caught.value) == (
        "nobody_has_this.transforms.functional.resize was used, but nobody_has_this is not installed: "
        "hygon_backend lets SGLang import it, since text models do without; install nobody_has_this for this "
        "torch to use what needs it"
    )
    with pytest.raises(UnsupportedError, match=r"nobody_has_this.transforms.functional.Mode was used"):
        _ = module.Mode.BICUBIC
    with pytest.raises(AttributeError):
        _ = module.__version__


@pytest.mark.usefixtures("finder")
def test_other_packages_are_not_found() -> None:
    assert find_spec("nobody_has_this_either") is None


def test_what_is_installed_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shims, "ABSENT_PACKAGES", ("json",))
    before = list(sys.meta_path)
    shims.install()
    assert sys.meta_path == before


def test_transformers_goes_on_without_torchvision() -> None:
    """It must not take the stand-in for the real thing."""
    program = (
        "import sglang, sys\n"
        "from transformers.utils import is_torchvision_available\n"
        "import transformers.image_utils, torchvision.transforms\n"
        "print(is_torchvision_available(), type(torchvision).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=engine_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "False StandInModule"
