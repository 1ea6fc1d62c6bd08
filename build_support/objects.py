"""Compiling sources to objects in parallel, skipping those that are up to date."""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from build_support.errors import BuildError
from build_support.tools import Environment, run_tool


@dataclass(frozen=True)
class CompileJob:
    """One source to compile. The object's name holds a digest of everything that made it."""

    source: Path
    object: Path
    command: tuple[str, ...]

    def is_fresh(self, headers: Iterable[Path]) -> bool:
        """True when the object exists and nothing it may have been made from is newer."""
        if not self.object.exists():
            return False
        built = self.object.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns <= built for path in (self.source, *headers))


def make_job(source: Path, folder: Path, compiler: Sequence[str], identity: str) -> CompileJob:
    """Plans the compilation of `source` into `folder`.

    Args:
        source: The file to compile.
        folder: Where the object goes.
        compiler: Command prefix that takes `-c SOURCE -o OBJECT`.
        identity: The compiler's version: another compiler or other flags give another object file,
            so that switching targets in one build folder never links a stale object.
    """
    digest = hashlib.sha256("\0".join((identity, *compiler, str(source))).encode()).hexdigest()[:12]
    target = folder / f"{source.stem}.{digest}.o"
    return CompileJob(source, target, (*compiler, "-c", str(source), "-o", str(target)))


def compile_all(jobs: Sequence[CompileJob], headers: Sequence[Path], workers: int) -> list[Path]:
    """Compiles what is out of date and returns all objects, in the order of `jobs`."""
    stale = [job for job in jobs if not job.is_fresh(headers)]
    with ThreadPoolExecutor(workers) as pool:
        # list() re-raises the first failure here instead of dropping it with the iterator.
        list(pool.map(_compile, stale))
    return [job.object for job in jobs]


def run_step(command: Sequence[str], what: str) -> None:
    """Runs one step of the build; shows the command and all of its output."""
    result = run_tool(command)
    print(" ".join(command), result.stdout, sep="\n", end="", flush=True)
    if result.returncode != 0:
        raise BuildError(f"{what} failed with status {result.returncode}: the compiler's messages are above.")


def worker_count(env: Environment, cores: int) -> int:
    """How many compilers to run at once: MAX_JOBS, which torch's builds read too, or one a core."""
    value = env.get("MAX_JOBS", str(cores))
    if not value.isdecimal() or int(value) == 0:
        raise BuildError(f"MAX_JOBS is '{value}', but must be a positive number of compilers to run at once.")
    return int(value)


def _compile(job: CompileJob) -> None:
    job.object.parent.mkdir(parents=True, exist_ok=True)
    run_step(job.command, f"compiling {job.source}")
