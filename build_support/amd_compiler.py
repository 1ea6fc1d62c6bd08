"""Debian's clang for AMD chips: compiles the kernels without a card, to look at what comes out."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from build_support.device import KERNEL_DIR
from build_support.errors import BuildError
from build_support.tools import Which, main_complaint, run_tool

CLANG = "clang-19"
DEMANGLER = "llvm-cxxfilt-19"
_DEVICE_LIBRARIES = "*/amdgcn/bitcode"
_REPAIR = "run tools/setup_amd.sh as root, which installs Debian's packages"


@dataclass(frozen=True)
class AmdCompiler:
    """A clang that compiles HIP for AMD chips."""

    version: str
    """Of everything that decides the code that comes out."""
    bitcode: Path
    """Folder of ROCm's device libraries."""

    def command(self, arch: str, *options: str) -> tuple[str, ...]:
        """Compiles the device's side of a kernel source; takes `-S` or `-c`, `SOURCE` and `-o OUTPUT`."""
        return (
            *(CLANG, "-x", "hip", f"--offload-arch={arch}", "--cuda-device-only", "--no-gpu-bundle-output"),
            *("-std=c++17", "-O3", f"-I{KERNEL_DIR}"),
            *("--rocm-path=/usr", f"--rocm-device-lib-path={self.bitcode}"),
            *options,
        )


def find_amd_compiler(
    folder: Path, which: Which = shutil.which, root: Path = Path("/usr/lib")
) -> AmdCompiler:
    """Finds the compiler, and completes its device libraries in `folder`; raises BuildError if it can't."""
    for tool in (CLANG, DEMANGLER):
        if which(tool) is None:
            raise BuildError(f"{tool} is not on PATH: {_REPAIR}.")
    libraries = next(iter(sorted(root.glob(_DEVICE_LIBRARIES))), None)
    if libraries is None:
        raise BuildError(f"ROCm's device libraries are not below {root}: {_REPAIR}.")
    clang = run_tool([CLANG, "--version"])
    if clang.returncode != 0:
        raise BuildError(f"{CLANG} --version fails (its message: {main_complaint(clang)}): {_REPAIR}.")
    version = clang.stdout.partition("\n")[0]
    return AmdCompiler(f"{version}; {_libraries_version()}", _complete_libraries(libraries, folder))


def demangle(symbols: Sequence[str]) -> list[str]:
    """The C++ names of linker symbols."""
    lines = "".join(f"{symbol}\n" for symbol in symbols)
    return subprocess.run(
        [DEMANGLER], input=lines, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def _complete_libraries(libraries: Path, folder: Path) -> Path:
    # Debian's libraries are older than gfx942 and know it by its first name, gfx940.
    folder.mkdir(parents=True, exist_ok=True)
    names = {library.name: library for library in libraries.glob("*.bc")}
    names.setdefault("oclc_isa_version_942.bc", libraries / "oclc_isa_version_940.bc")
    for name, library in names.items():
        link = folder / name
        if not link.exists():
            # Two processes may get here at once.
            link.unlink(missing_ok=True)
            try:
                link.symlink_to(library)
            except FileExistsError:
                continue
    return folder


def _libraries_version() -> str:
    package = "rocm-device-libs"
    if shutil.which("dpkg-query") is None:
        return f"{package} of unknown version"
    result = run_tool(["dpkg-query", "--show", "--showformat", "${Version}", package])
    return f"{package} {result.stdout}" if result.returncode == 0 else f"{package} of unknown version"
