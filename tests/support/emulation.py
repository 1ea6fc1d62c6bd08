"""Builds the extension module over emulated kernels: the sources a card runs, compiled for the CPU.

The module has the interface of `hygon_backend._C` and works on tensors in host memory. It is built on
first use into `.cache/emulation` of the checkout, by `CXX` or g++, and again where a source changed.
`HYGON_EMULATION_CXXFLAGS` adds flags, and builds into a folder of its own: sanitizers, other matrix units.
`python tests/support/emulation.py` builds it by itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import os
import re
import shlex
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType

import pybind11

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))  # build_support is no part of the installed package

from build_support.info import BuildInfo, write_header  # noqa: E402
from build_support.objects import CompileJob, compile_all, make_job, run_step, worker_count  # noqa: E402
from build_support.tools import run_tool  # noqa: E402

NAME = "_emulation"
EXTRA_FLAGS = os.environ.get("HYGON_EMULATION_CXXFLAGS", "")
_VARIANT = hashlib.sha256(EXTRA_FLAGS.encode()).hexdigest()[:8] if EXTRA_FLAGS else ""
FOLDER = CHECKOUT / ".cache" / f"emulation{_VARIANT}"

_CSRC = CHECKOUT / "csrc"
_KERNELS = _CSRC / "kernels"
_SHIM = _KERNELS / "arch" / "host_shim"
_GENERATED = FOLDER / "generated"
_INCLUDES = (_SHIM, _KERNELS, _CSRC, _GENERATED)
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")
_FLAGS += ("-Wno-unknown-pragmas", f"-DHYGON_MODULE_NAME={NAME}", *shlex.split(EXTRA_FLAGS))


@cache
def emulated_module() -> ModuleType:
    """Builds what is out of date and imports the module, once a process."""
    library = build()
    spec = importlib.util.spec_from_file_location(NAME, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build() -> Path:
    """Builds what is out of date and returns the module's file; says what it does on stderr."""
    with _lock(), _quiet_unless_it_fails():
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        version = run_tool([*compiler, "--version"]).stdout.partition("\n")[0]
        kernels = sorted(_KERNELS.glob("*.hip"))
        bindings = sorted(set(_CSRC.glob("bindings*.cpp")) - {_CSRC / "bindings_cache.cpp"})
        sources = [*kernels, *bindings, *sorted(_SHIM.glob("*.cpp"))]
        write_header(
            BuildInfo("0", "host", ("wave64",), f"{version} (emulated)", [k.stem for k in kernels]),
            _GENERATED,
        )
        python = (f"-I{sysconfig.get_path('include')}", f"-I{pybind11.get_include()}")
        command = (*compiler, *_FLAGS, *(f"-I{folder}" for folder in _INCLUDES), *python)
        jobs = [make_job(source, FOLDER, _language(command, source), version) for source in sources]
        stale = [job for job in jobs if not job.is_fresh(included(job.source))]
        _compile(stale)
        return _link(compiler, [job.object for job in jobs])


def included(source: Path) -> set[Path]:
    """The project's headers that a source includes, directly or through others."""
    found: set[Path] = set()
    pending = [source]
    while pending:
        file = pending.pop()
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', file.read_text(), flags=re.MULTILINE):
            for folder in (file.parent, *_INCLUDES):
                header = (folder / name).resolve()
                if header.is_file() and header not in found:
                    found.add(header)
                    pending.append(header)
    return found


def _language(command: tuple[str, ...], source: Path) -> tuple[str, ...]:
    return (*command, "-x", "c++") if source.suffix == ".hip" else command


def _compile(jobs: list[CompileJob]) -> None:
    """Compiles, the largest kernels first, with a line for each source."""
    jobs = sorted(jobs, key=lambda job: (job.source.suffix != ".hip", -job.source.stat().st_size))
    started = time.monotonic()

    def compile_one(item: tuple[int, CompileJob]) -> None:
        number, job = item
        seconds = time.monotonic() - started
        text = f"emulation: compiling {job.source.name} ({number} of {len(jobs)}, {seconds:.0f} s so far)"
        print(text, file=sys.stderr, flush=True)
        job.object.unlink(missing_ok=True)
        compile_all([job], [], workers=1)

    with ThreadPoolExecutor(worker_count(os.environ, os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, enumerate(jobs, 1)))  # list() raises the first failure


def _link(compiler: list[str], objects: list[Path]) -> Path:
    # A name of its own for each set of objects: a process that has loaded an older one keeps it.
    stamps = "".join(f"{path.name}:{path.stat().st_mtime_ns};" for path in objects)
    digest = hashlib.sha256(stamps.encode()).hexdigest()[:12]
    library = FOLDER / f"{NAME}.{digest}.so"
    if not library.exists():
        for old in FOLDER.glob(f"{NAME}.*.so"):
            old.unlink()
        part = library.with_suffix(".part")
        run_step(
            (
                *compiler,
                "-shared",
                "-pthread",
                *shlex.split(EXTRA_FLAGS),
                *map(str, objects),
                "-o",
                str(part),
            ),
            "linking the emulation",
        )
        part.rename(library)
    return library


@contextmanager
def _lock() -> Iterator[None]:
    """Lets one process build at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _quiet_unless_it_fails() -> Iterator[None]:
    """Holds back the commands and the compilers' messages, which the build support prints."""
    log = io.StringIO()
    try:
        with redirect_stdout(log):
            yield
    except BaseException:
        print(log.getvalue(), file=sys.stderr)
        raise


if __name__ == "__main__":
    print(build())
