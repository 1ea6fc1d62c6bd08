"""The compilers of a selection, found and tried before the build starts."""

import shlex
from dataclasses import dataclass

from build_support.cxx import CXX_FLAGS, check_cxx, find_cxx
from build_support.device import check_device_compiler, find_hipcc, find_nvcc
from build_support.target import Selection
from build_support.tools import Environment, Which, run_tool


@dataclass(frozen=True)
class Toolchain:
    """Command prefixes: `cxx` and `device` take `-c SOURCE -o OBJECT`, `linker` takes objects."""

    cxx: tuple[str, ...]
    device: tuple[str, ...] | None
    """None on the host target."""
    linker: tuple[str, ...]
    compiler: str
    """Name and version of the compiler that makes the target's code."""


def find_toolchain(
    selection: Selection,
    env: Environment,
    which: Which,
    *,
    python_cxx: str | None,
    python_include: str,
) -> Toolchain:
    """Finds and tries the compilers that `selection` needs; raises BuildError with the fix if it can't.

    Args:
        selection: What is to be built.
        env: The environment variables.
        which: Finds a command, like `shutil.which`.
        python_cxx: The C++ compiler that Python itself was built with, if it says.
        python_include: Folder of Python.h.
    """
    driver = find_cxx(env, which, python_cxx)
    check_cxx(driver, python_include)
    cxx = (*driver, *CXX_FLAGS, f"-I{python_include}", *shlex.split(env.get("CXXFLAGS", "")))
    if selection.target == "host":
        version = run_tool([*driver, "--version"]).stdout.partition("\n")[0]
        return Toolchain(cxx, None, (*driver, "-shared"), version)
    if selection.target == "nvidia":
        compiler = find_nvcc(selection.archs, env, which)
    else:
        compiler = find_hipcc(selection.target, selection.archs, env, which)
    check_device_compiler(compiler, selection.archs)
    return Toolchain(cxx, compiler.compile, compiler.link, compiler.label)
