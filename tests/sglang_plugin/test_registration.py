"""Registration is complete or it is loud: SGLang logs what a plugin raises and goes on without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

from hygon_backend.sglang_plugin import registration
from tests.sglang_plugin.engines import engine_environment

# Stock SGLang's own start, up to the point where it knows which attention backend will serve.
LAUNCH = """
import sys
from sglang.launch_server import load_plugins
load_plugins()
from sglang.srt.server_args import prepare_server_args
arguments = prepare_server_args(["--model-path", *sys.argv[1:]])
arguments.resolve_once()
from sglang.srt.arg_groups.overrides import attention_backends_of, resolved_view
print("backends:", *attention_backends_of(resolved_view(arguments)))
"""

BROKEN_MODULE = """
import importlib.abc, sys
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            raise ImportError("{message}", name=name)
sys.meta_path.insert(0, Broken())
"""


def launch(
    model: Path, folder: Path, *options: str, prelude: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Starts SGLang as far as its backend is decided; `prelude` runs first in every process."""
    (folder / "sitecustomize.py").write_text(prelude)
    return subprocess.run(
        [sys.executable, "-c", LAUNCH, str(model), *options],
        env=engine_environment(PYTHONPATH=str(folder), **environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "backends"),
    [
        ((), "hygon hygon"),
        (("--attention-backend", "hygon"), "hygon hygon"),
        (
            ("--attention-backend", "torch_native", "--decode-attention-backend", "hygon"),
            "torch_native hygon",
        ),
        (
            ("--attention-backend", "torch_native", "--prefill-attention-backend", "hygon"),
            "hygon torch_native",
        ),
    ],
)
def test_the_flag_chooses(options: tuple[str, ...], backends: str, model_dir: Path, tmp_path: Path) -> None:
    done = launch(model_dir, tmp_path, *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"backends: {backends}" in done.stdout


@pytest.mark.parametrize("options", [(), ("--attention-backend", "hygon")])
def test_a_broken_native_module_ends_the_process(
    options: tuple[str, ...], model_dir: Path, tmp_path: Path
) -> None:
    prelude = BROKEN_MODULE.format(module="hygon_backend._C", message="libgalaxyhip.so.5: cannot open")
    done = launch(model_dir, tmp_path, *options, prelude=prelude)
    assert done.returncode == 1
    assert "backends:" not in done.stdout
    last = done.stderr.strip().splitlines()[-1]
    assert "hygon_backend refuses to serve" in last
    assert "libgalaxyhip.so.5: cannot open" in last
    assert "HYGON_BACKEND_TORCH_PATH=1 asks for PyTorch" in last


def test_pytorch_serves_without_the_native_module_when_asked(model_dir: Path, tmp_path: Path) -> None:
    prelude = BROKEN_MODULE.format(module="hygon_backend._C", message="no such library")
    done = launch(model_dir, tmp_path, prelude=prelude, HYGON_BACKEND_TORCH_PATH="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "backends: hygon hygon" in done.stdout


def test_a_failing_registration_ends_the_process(model_dir: Path, tmp_path: Path) -> None:
    """As with an SGLang whose interface moved: what the plugin imports is not there."""
    prelude = BROKEN_MODULE.format(module="sglang.srt.plugins.hook_registry_moved", message="unused") + (
        "import hygon_backend.sglang_plugin.registration as r\n"
        "def fail():\n    raise AttributeError('module has no attribute add_attention_backend_choices')\n"
        "r._register = fail\n"
    )
    done = launch(model_dir, tmp_path, prelude=prelude)
    assert done.returncode == 1
    assert "backends:" not in done.stdout
    assert done.stderr.strip().splitlines()[-1] == (
        "hygon_backend could not register its attention backend 'hygon' with SGLang 0.5.23: "
        "AttributeError: module has no attribute add_attention_backend_choices"
    )


def test_a_platform_without_its_plugin_ends_the_process(model_dir: Path, tmp_path: Path) -> None:
    done = launch(model_dir, tmp_path, SGLANG_PLATFORM="hygon", SGLANG_PLUGINS="something_else")
    assert done.returncode == 1
    assert "did not register the attention backend 'hygon': let SGLANG_PLUGINS name hygon" in done.stderr


def test_an_unsupported_sglang_ends_the_process_with_one_sentence(model_dir: Path, tmp_path: Path) -> None:
    info = tmp_path / "sglang-0.5.99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.99\n")
    done = launch(model_dir, tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "hygon_backend supports SGLang 0.5.23, but SGLang 0.5.99 is installed: install a supported version, "
        "or set HYGON_BACKEND_SKIP_VERSION_CHECK=1 to try at your own risk."
    )


def test_an_unsupported_sglang_that_works_without_us_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "installed_version", lambda: "0.5.99")
    monkeypatch.setattr(registration, "_register", lambda: pytest.fail("must not be touched"))
    registration.register_or_exit()
    assert "hygon not registered: hygon_backend supports SGLang 0.5.23" in caplog.text


def test_registration_is_idempotent() -> None:
    registration.register_or_exit()
    registration.register_or_exit()
    assert ATTENTION_BACKEND_CHOICES.count("hygon") == 1
    assert ATTENTION_BACKENDS["hygon"] is registration.create_backend
    registration.require_registered()
