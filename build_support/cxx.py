"""The C++ compiler, which every target needs for the binding code."""

import shlex
from collections.abc import Sequence

from build_support.errors import BuildError
from build_support.tools import Environment, Which
from build_support.trial import try_build

CXX_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")

_CXX17_TRIAL = """\
#include <optional>
#include <string_view>
static_assert(__cplusplus >= 201703L, "C++17 is off");
std::optional<std::string_view> Trial() { return std::nullopt; }
"""

_PYTHON_TRIAL = "#include <Python.h>\n"


def find_cxx(env: Environment, which: Which, python_cxx: str | None) -> tuple[str, ...]:
    """The C++ compiler's command: CXX if set, else what built Python, else the usual names."""
    if env.get("CXX"):
        command = tuple(shlex.split(env["CXX"]))
        if which(command[0]):
            return command
        raise BuildError(f"CXX is '{env['CXX']}', but no such compiler is found: correct CXX or unset it.")
    for candidate in filter(None, (python_cxx, "c++", "g++", "clang++")):
        command = tuple(shlex.split(candidate))
        if which(command[0]):
            return command
    raise BuildError("no C++ compiler is found: install g++ 9 or newer, or name a C++17 compiler with CXX.")


def check_cxx(driver: Sequence[str], python_include: str) -> None:
    """Raises BuildError unless `driver` builds C++17 code and sees Python's headers."""
    compiler, linker = [*driver, *CXX_FLAGS], [*driver, "-shared"]
    complaint = try_build(compiler, linker, "trial.cpp", _CXX17_TRIAL)
    if complaint:
        raise BuildError(
            f"the C++ compiler '{' '.join(driver)}' cannot build C++17 code (its message: {complaint}): "
            "install g++ 9 or newer, or name a C++17 compiler with CXX."
        )
    complaint = try_build([*compiler, f"-I{python_include}"], linker, "trial.cpp", _PYTHON_TRIAL)
    if complaint:
        raise BuildError(
            f"Python.h cannot be used from {python_include} (the compiler's message: {complaint}): "
            "install the development headers of this Python, such as Debian's python3-dev."
        )
