"""Builds the test programs of this folder with the host emulation of HIP, and runs their cases."""

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
KERNELS = Path(__file__).parents[2] / "csrc" / "kernels"
SHIM = KERNELS / "arch" / "host_shim"

_WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


@dataclass(frozen=True)
class Build:
    """A way to compile everything."""

    name: str
    flags: tuple[str, ...]


PLAIN = Build("plain", ("-O2",))
SANITIZED = Build("sanitized", ("-O1", "-g", *_SANITIZED))
PORTABLE = Build("portable", ("-O1", "-DHYGON_EMULATION_UCONTEXT"))
"""Switches fibers the slow way, as on processors that we have no assembly for."""


class Compiler:
    """Compiles on demand into one folder, each thing once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = os.environ.get("CXX", "g++")

    def try_compile(self, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        command = [self._command, "-std=c++17", f"-I{SHIM}", f"-I{KERNELS}", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def program(self, sources: Sequence[Path], build: Build, options: Sequence[str] = ()) -> Path:
        """Compiles the sources, with further options, and links them with the emulator."""
        program = self._folder / "".join((sources[0].stem, "-", build.name, *options))
        if not program.exists():
            objects = self._emulator(build)
            inputs: list[str | Path] = ["-x", "c++", *sources, "-x", "none", *objects]
            self._compile([*build.flags, *_WARNINGS, *options, "-pthread", "-o", program, *inputs])
        return program

    def _emulator(self, build: Build) -> list[Path]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda source: self._object(source, build), sorted(SHIM.glob("*.cpp"))))

    def _object(self, source: Path, build: Build) -> Path:
        compiled = self._folder / f"{source.stem}-{build.name}.o"
        if not compiled.exists():
            self._compile([*build.flags, *_WARNINGS, "-fPIC", "-c", "-o", compiled, source])
        return compiled

    def _compile(self, arguments: Sequence[str | Path]) -> None:
        done = self.try_compile(arguments)
        assert done.returncode == 0, done.stderr


class Program:
    """A compiled test program."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, case: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs a case; `order` and `threads` become the emulator's environment variables."""
        variables = {f"HYGON_EMULATION_{name.upper()}": value for name, value in settings.items()}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HYGON_EMULATION_")}
        return subprocess.run(
            [self._path, case],
            env={**inherited, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def lines(self, case: str, **settings: str) -> list[str]:
        """What a case that must succeed prints."""
        done = self.run(case, **settings)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.splitlines()

    def numbers(self, case: str, **settings: str) -> list[int]:
        """The numbers in the one line that a case prints."""
        (line,) = self.lines(case, **settings)
        return [int(word) for word in line.split()]
