import shutil
import sysconfig
from pathlib import Path

import pytest
from build_helpers import Refusal, ToolFolder

from build_support.archs import HipTarget
from build_support.cxx import check_cxx, find_cxx
from build_support.device import check_device_compiler, find_hipcc, find_nvcc
from build_support.target import Selection
from build_support.toolchain import find_toolchain
from build_support.tools import find_tool

PYTHON_INCLUDE = sysconfig.get_path("include")

NVCC_13 = """\
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; fi
echo "nvcc warning : something"; echo "nvcc fatal   : Path to libdevice library not specified"; exit 1"""

HIPCC_6 = """\
if [ "$1" = --version ]; then echo "HIP version: 6.3.25-abc"; exit 0; fi
echo "clang: error: invalid target ID 'gfx938'"; exit 1"""


def test_cxx_variable_wins(tools: ToolFolder) -> None:
    tools.add("ccache", "exit 0")
    tools.add("g++", "exit 0")
    assert find_cxx({"CXX": "ccache g++-13"}, tools.which, "g++") == ("ccache", "g++-13")


@pytest.mark.parametrize(
    ("present", "python_cxx", "expected"),
    [
        (("g++", "c++"), "g++ -pthread", ("g++", "-pthread")),
        # Python may have been built by a compiler that this machine does not have.
        (("clang++", "c++"), "icpc", ("c++",)),
        (("clang++",), "g++", ("clang++",)),
        (("g++",), None, ("g++",)),
        (("g++",), "", ("g++",)),
    ],
)
def test_cxx_falls_back_to_what_is_there(
    tools: ToolFolder, present: tuple[str, ...], python_cxx: str | None, expected: tuple[str, ...]
) -> None:
    for name in present:
        tools.add(name, "exit 0")
    assert find_cxx({}, tools.which, python_cxx) == expected


def test_no_cxx_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    assert refusal(lambda: find_cxx({}, tools.which, "g++")) == (
        "no C++ compiler is found: install g++ 9 or newer, or name a C++17 compiler with CXX."
    )


def test_a_wrong_cxx_variable_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    tools.add("g++", "exit 0")
    assert refusal(lambda: find_cxx({"CXX": "g++-99 -m64"}, tools.which, "g++")) == (
        "CXX is 'g++-99 -m64', but no such compiler is found: correct CXX or unset it."
    )


@pytest.mark.parametrize(
    "complaint",
    [
        "g++: error: unrecognized command line option '-std=c++17'",
        "trial.cpp:1:10: fatal error: optional: No such file or directory",
    ],
)
def test_a_cxx_without_cxx17_is_refused(tools: ToolFolder, complaint: str, refusal: Refusal) -> None:
    compiler = tools.add("g++", f'echo "In file included from x"; echo "{complaint}"; exit 1')
    assert refusal(lambda: check_cxx([compiler], PYTHON_INCLUDE)) == (
        f"the C++ compiler '{compiler}' cannot build C++17 code (its message: {complaint}): "
        "install g++ 9 or newer, or name a C++17 compiler with CXX."
    )


def test_a_cxx_that_says_nothing_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    compiler = tools.add("g++", "exit 3")
    assert "(its message: exit status 3)" in refusal(lambda: check_cxx([compiler], PYTHON_INCLUDE))


def test_missing_python_headers_are_refused(tmp_path: Path, refusal: Refusal) -> None:
    sentence = refusal(lambda: check_cxx(find_cxx({}, shutil.which, "c++"), str(tmp_path)))
    assert sentence.startswith(f"Python.h cannot be used from {tmp_path} (the compiler's message: ")
    assert sentence.endswith(
        "): install the development headers of this Python, such as Debian's python3-dev."
    )


def test_a_toolkit_variable_wins_over_path(tools: ToolFolder) -> None:
    on_path = tools.add("nvcc", "exit 0")
    named = tools.add("cuda/bin/nvcc", "exit 0")
    assert find_tool("nvcc", {"CUDA_HOME": str(tools.folder / "cuda")}, tools.which) == named
    assert find_tool("nvcc", {"CUDA_HOME": str(tools.folder / "absent")}, tools.which) == on_path
    assert find_tool("nvcc", {}, tools.which) == on_path
    assert find_tool("hipcc", {}, tools.which) is None


def test_a_missing_nvcc_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    assert refusal(lambda: find_nvcc(["sm_90"], {}, tools.which)) == (
        "target nvidia needs nvcc, which is neither under CUDA_HOME nor on PATH: "
        "install the CUDA toolkit 12 or newer, or set CUDA_HOME."
    )


def test_an_old_nvcc_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    nvcc = tools.add("nvcc", 'echo "Cuda compilation tools, release 11.8, V11.8.89"')
    assert refusal(lambda: find_nvcc(["sm_90"], {}, tools.which)) == (
        f"{nvcc} is version 11.8.89, but target nvidia needs CUDA 12 or newer: "
        "install a newer toolkit, or point CUDA_HOME at one."
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('echo "exec: /opt/cuda/bin/nvcc: not found"; exit 127', "exec: /opt/cuda/bin/nvcc: not found"),
        (
            'echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 1',
            "Cuda compilation tools, release 13.0",
        ),
        ('echo "hello"', "hello"),
    ],
)
def test_an_nvcc_that_does_not_run_is_refused(
    tools: ToolFolder, script: str, message: str, refusal: Refusal
) -> None:
    nvcc = tools.add("nvcc", script)
    sentence = refusal(lambda: find_nvcc(["sm_90"], {}, tools.which))
    assert sentence.startswith(f"{nvcc} --version fails (its message: {message}")
    assert sentence.endswith("): install the CUDA toolkit whole (compiler, runtime headers and cudart).")


def test_an_nvcc_that_cannot_build_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    nvcc = tools.add("nvcc", NVCC_13)
    compiler = find_nvcc(["sm_90"], {}, tools.which)
    assert compiler.label == "nvcc 13.0.88"
    assert refusal(lambda: check_device_compiler(compiler, ["sm_90"])) == (
        f"{nvcc} 13.0.88 cannot build for sm_90 "
        "(its message: nvcc fatal   : Path to libdevice library not specified): "
        "install the CUDA toolkit whole (compiler, runtime headers and cudart)."
    )


@pytest.mark.parametrize(("target", "toolkit"), [("hcu", "DTK, Hygon's toolkit"), ("amd", "ROCm")])
def test_a_missing_hipcc_is_refused(
    tools: ToolFolder, target: HipTarget, toolkit: str, refusal: Refusal
) -> None:
    assert refusal(lambda: find_hipcc(target, ["gfx906"], {}, tools.which)) == (
        f"target {target} needs hipcc, which is neither under ROCM_PATH nor on PATH: "
        f"install {toolkit}, and load its environment or set ROCM_PATH."
    )


def test_a_hipcc_that_does_not_run_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    hipcc = tools.add("hipcc", 'echo "Can\'t exec clang: No such file or directory"; exit 2')
    assert refusal(lambda: find_hipcc("hcu", ["gfx928"], {}, tools.which)) == (
        f"{hipcc} --version fails (its message: Can't exec clang: No such file or directory): "
        "install DTK, Hygon's toolkit whole, in a version that knows the card."
    )


def test_a_hipcc_that_does_not_know_the_card_is_refused(tools: ToolFolder, refusal: Refusal) -> None:
    hipcc = tools.add("hipcc", HIPCC_6)
    compiler = find_hipcc("amd", ["gfx90a", "gfx942"], {}, tools.which)
    assert refusal(lambda: check_device_compiler(compiler, ["gfx90a", "gfx942"])) == (
        f"{hipcc} 6.3.25-abc cannot build for gfx90a, gfx942 "
        "(its message: clang: error: invalid target ID 'gfx938'): "
        "install ROCm whole, in a version that knows the card."
    )


def test_hipcc_compiles_for_every_arch_at_once(tools: ToolFolder) -> None:
    hipcc = tools.add("hipcc", HIPCC_6)
    compiler = find_hipcc("hcu", ["gfx928", "gfx936"], {}, tools.which)
    assert compiler.compile[:3] == (hipcc, "--offload-arch=gfx928", "--offload-arch=gfx936")
    assert compiler.link == (hipcc, "--offload-arch=gfx928", "--offload-arch=gfx936", "-shared")


def test_only_hygon_builds_are_told_to_stay_off_amd_instructions(tools: ToolFolder) -> None:
    tools.add("hipcc", HIPCC_6)
    # gfx906 is in both targets.
    assert "-DHYGON_TARGET_HCU" in find_hipcc("hcu", ["gfx906"], {}, tools.which).compile
    assert "-DHYGON_TARGET_HCU" not in find_hipcc("amd", ["gfx906"], {}, tools.which).compile


@pytest.mark.parametrize(
    ("target", "env", "prefix"),
    [
        ("amd", {}, ("env", "HIP_PLATFORM=amd")),
        ("amd", {"HIP_PLATFORM": "amd"}, ()),
        ("hcu", {}, ()),
    ],
)
def test_hipcc_is_told_its_platform(
    tools: ToolFolder, target: HipTarget, env: dict[str, str], prefix: tuple[str, ...]
) -> None:
    hipcc = tools.add("hipcc", HIPCC_6)
    compiler = find_hipcc(target, ["gfx906"], env, tools.which)
    assert compiler.compile[: len(prefix) + 1] == (*prefix, hipcc)
    assert compiler.link[: len(prefix) + 1] == (*prefix, hipcc)


def test_the_host_toolchain_works_here() -> None:
    env = {"CXXFLAGS": "-g -DNAME='a b'"}
    toolchain = find_toolchain(
        Selection("host"), env, shutil.which, python_cxx=None, python_include=PYTHON_INCLUDE
    )
    assert toolchain.device is None
    assert toolchain.cxx[-2:] == ("-g", "-DNAME=a b")
    assert toolchain.linker == (toolchain.cxx[0], "-shared")
    assert toolchain.compiler


@pytest.mark.parametrize(
    ("selection", "tool", "script"),
    [
        (Selection("nvidia", ("sm_90",)), "nvcc", NVCC_13),
        (Selection("hcu", ("gfx938",)), "hipcc", HIPCC_6),
        (Selection("amd", ("gfx90a",)), "hipcc", HIPCC_6),
    ],
)
def test_a_device_compiler_is_tried_before_the_build(
    tools: ToolFolder, selection: Selection, tool: str, script: str, refusal: Refusal
) -> None:
    tools.add(tool, script)

    def which(name: str) -> str | None:
        return tools.which(name) if name in ("nvcc", "hipcc") else shutil.which(name)

    assert "cannot build for" in refusal(
        lambda: find_toolchain(selection, {}, which, python_cxx=None, python_include=PYTHON_INCLUDE)
    )
