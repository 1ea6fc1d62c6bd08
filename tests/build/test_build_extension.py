"""Builds through the real setup.py, and loads what comes out through the real loader."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from build_helpers import ToolFolder

REPOSITORY = Path(__file__).resolve().parents[2]
EXTENSION_FILE = "_C" + sysconfig.get_config_var("EXT_SUFFIX")

# What the build reads: a test sets what it needs and inherits nothing by accident.
BUILD_VARIABLES = {
    *("HYGON_BACKEND_TARGET", "HYGON_BACKEND_ALLOW_CROSS", "PYTORCH_ROCM_ARCH"),
    *("CXX", "CXXFLAGS", "LDFLAGS", "MAX_JOBS"),
}


def run_setup(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `setup.py build_ext` on the checkout with all output below `folder`."""
    inherited = {name: value for name, value in os.environ.items() if name not in BUILD_VARIABLES}
    output = ["--build-lib", str(folder / "lib"), "--build-temp", str(folder / "temp")]
    return subprocess.run(
        [sys.executable, "-B", "setup.py", "build_ext", *output],
        cwd=REPOSITORY,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def make_package(folder: Path, extension: Path | None) -> Path:
    """A package of the loader alone, so that nothing but the loader and the extension is tested."""
    package = folder / "hygon_backend"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(REPOSITORY / "hygon_backend" / "native.py", package)
    if extension:
        shutil.copy(extension, package / EXTENSION_FILE)
    return folder


def run_python(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code that finds `hygon_backend` below `path` and nowhere else."""
    # Without -S an editable install's finder would run, and it offers the checkout's _C to any package
    # of this name. The installed packages stay importable: without the finder theirs come second.
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    prologue = f"import sys; sys.path = [{str(path)!r}, *sys.path, *{installed!r}]\n"
    prologue += "from hygon_backend import native\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", prologue + code], capture_output=True, text=True, check=False
    )


def load_build_info(path: Path) -> dict[str, object]:
    run = run_python(path, "import json; print(json.dumps([native.is_available(), native.build_info()]))")
    assert run.returncode == 0, run.stderr
    available, info = json.loads(run.stdout)
    assert available is True
    assert isinstance(info, dict)
    return info


def project_version() -> str:
    run = subprocess.run(
        [sys.executable, "-B", "setup.py", "--version"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()[-1]


def test_the_host_target(tmp_path: Path) -> None:
    run = run_setup(tmp_path, HYGON_BACKEND_TARGET="host")
    assert run.returncode == 0, run.stdout + run.stderr
    package = make_package(tmp_path / "package", tmp_path / "lib" / "hygon_backend" / EXTENSION_FILE)
    info = load_build_info(package)
    assert info.pop("compiler")
    assert info == {
        "version": project_version(),
        "target": "host",
        "archs": [],
        "cxx_standard": 17,
        "kernels": [],
        "note": "the host target compiles no device kernels",
    }
    run = run_python(package, "from hygon_backend import _C; print(hasattr(_C, 'probe_wave_width'))")
    assert run.stdout.strip() == "False"


def test_the_nvidia_target(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed, so the nvidia target cannot be compiled")
    run = run_setup(tmp_path, HYGON_BACKEND_TARGET="nvidia", HYGON_BACKEND_ALLOW_CROSS="1")
    assert run.returncode == 0, run.stdout + run.stderr
    package = make_package(tmp_path / "package", tmp_path / "lib" / "hygon_backend" / EXTENSION_FILE)
    info = load_build_info(package)
    assert str(info.pop("compiler")).startswith("nvcc ")
    kernels = sorted(source.stem for source in (REPOSITORY / "csrc" / "kernels").glob("*.hip"))
    assert "wave_probe" in kernels
    assert info == {
        "version": project_version(),
        "target": "nvidia",
        "archs": ["sm_90"],
        "cxx_standard": 17,
        "kernels": kernels,
        "note": "",
    }
    run = run_python(package, "from hygon_backend import _C; print(_C.probe_wave_width())")
    if shutil.which("nvidia-smi"):
        assert run.stdout.strip() == "32", run.stderr
    else:
        assert "RuntimeError: hipMalloc failed: " in run.stderr


def test_an_unknown_target_ends_the_build_with_one_sentence(tmp_path: Path) -> None:
    run = run_setup(tmp_path, HYGON_BACKEND_TARGET="bogus")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "hygon_backend: HYGON_BACKEND_TARGET is 'bogus', but must be one of host, hcu, amd, nvidia, "
        "or unset to have it detected."
    )
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.rglob("*.o"))


def test_a_broken_compiler_ends_the_build_with_one_sentence(tmp_path: Path, tools: ToolFolder) -> None:
    compiler = tools.add("g++", "echo 'g++: fatal error: no cc1plus'; exit 1")
    run = run_setup(tmp_path, HYGON_BACKEND_TARGET="host", CXX=compiler)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(
        f"hygon_backend: the C++ compiler '{compiler}' cannot build"
    )
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.rglob("*.o"))


def test_loading_a_package_that_was_not_built(tmp_path: Path) -> None:
    package = make_package(tmp_path, None)
    run = run_python(package, "print(native.is_available()); native.build_info()")
    assert run.stdout.strip() == "False"
    assert run.stderr.splitlines()[-1] == (
        "ImportError: hygon_backend was not built: run `pip install --no-build-isolation .`"
    )


def test_loading_an_extension_that_does_not_load(tmp_path: Path) -> None:
    package = make_package(tmp_path, None)
    (package / "hygon_backend" / EXTENSION_FILE).write_bytes(b"not a library")
    run = run_python(package, "print(native.is_available()); native.build_info()")
    assert run.stdout.strip() == "False"
    last = run.stderr.splitlines()[-1]
    assert last.startswith(
        "ImportError: hygon_backend was built, but hygon_backend._C does not load (the loader's message: "
    )
    assert str(package) in last, "the loader's own message, which names the file, is kept"
    assert last.endswith("or build again with `pip install --no-build-isolation .`")
