"""Compiles every kernel for AMD chips: none may spill, and the committed table must say what comes out."""

import os
import re
from pathlib import Path

import pytest
from build_helpers import Refusal, ToolFolder

from build_support.amd_compiler import AmdCompiler, find_amd_compiler
from build_support.amd_resources import (
    ARCHS,
    KernelResources,
    complaints,
    measure_all,
    parse_remarks,
    read_json,
    render_json,
    render_markdown,
    short_name,
)
from build_support.errors import BuildError
from build_support.tools import run_tool

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "amd"
TABLE = REPOSITORY / "benchmarks" / "results" / "amd_resources.json"
PAGE = REPOSITORY / "docs" / "amd_resources.md"

REFRESH = "run `make amd` and commit benchmarks/results/amd_resources.json and docs/amd_resources.md"

# Asks the runtime about the device and launches nothing, so it has no row in the table.
HOST_ONLY = {"device_facts.hip"}


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="session")
def compiler() -> AmdCompiler:
    return find_amd_compiler(CACHE / "bitcode")


@pytest.fixture(scope="session")
def kernels(compiler: AmdCompiler) -> list[KernelResources]:
    previous = Path.cwd()
    os.chdir(REPOSITORY)
    try:
        return measure_all(compiler, CACHE, os.cpu_count() or 1)
    finally:
        os.chdir(previous)


# Three minutes on two idle cores, and nothing once it is in the cache.
@pytest.mark.timeout(2400)
def test_no_kernel_breaks_a_limit(kernels: list[KernelResources]) -> None:
    assert complaints(kernels) == []


@pytest.mark.timeout(2400)
def test_every_source_is_compiled_for_every_chip(kernels: list[KernelResources]) -> None:
    sources = {path.name for path in (REPOSITORY / "csrc" / "kernels").glob("*.hip")}
    sources -= HOST_ONLY
    for arch in ARCHS:
        assert {kernel.source for kernel in kernels if kernel.arch == arch} == sources


@pytest.mark.timeout(2400)
def test_the_committed_table_lists_these_kernels(kernels: list[KernelResources]) -> None:
    def gated(table: list[KernelResources]) -> set[tuple[str, str, str, int, int]]:
        return {(k.arch, k.source, k.kernel, k.lds_bytes, k.scratch_bytes) for k in table}

    assert gated(read_json(TABLE.read_text())[1]) == gated(kernels), REFRESH


@pytest.mark.timeout(2400)
def test_the_committed_table_has_these_registers(
    compiler: AmdCompiler, kernels: list[KernelResources]
) -> None:
    version, committed = read_json(TABLE.read_text())
    if version != compiler.version:
        pytest.skip(f"the table was made by {version}, and here is {compiler.version}")
    assert committed == kernels, REFRESH


def test_the_committed_page_shows_the_committed_table() -> None:
    assert PAGE.read_text() == render_markdown(*read_json(TABLE.read_text())), REFRESH


SPILLING = "template <int> __global__ void Spill(float* x, int n) {\n" + (
    "  float all[200];\n  for (int i = 0; i < 200; ++i) all[i] = x[i];\n"
    "  for (int i = 0; i < n; ++i) all[(i * 7) % 200] += x[i];\n"
    "  for (int i = 0; i < 200; ++i) x[i] = all[i];\n}\n"
)
LARGE_LDS = """\
__global__ void Large(float* x) {
  __shared__ float all[16385];
  all[threadIdx.x] = x[0];
  __syncthreads();
  x[threadIdx.x] = all[16384 - threadIdx.x];
}
"""


def test_a_kernel_that_breaks_the_limits_is_named(compiler: AmdCompiler, tmp_path: Path) -> None:
    source = tmp_path / "bad.hip"
    spill = "template __global__ void Spill<3>(float*, int);\n"
    source.write_text(f"#include <hip/hip_runtime.h>\n{SPILLING}{spill}{LARGE_LDS}")
    command = compiler.command("gfx90a", "-Rpass-analysis=kernel-resource-usage", "-S")
    # Code generation refuses such LDS in the end, but the remarks are there by then.
    remarks = run_tool([*command, str(source), "-o", "/dev/null"]).stdout
    lines = complaints(parse_remarks(remarks, "gfx90a", source.name))
    assert len(lines) == 2
    assert re.fullmatch(
        r"gfx90a, bad\.hip: Spill<3> uses \d+ bytes of scratch memory a lane, but must use none", lines[0]
    )
    assert lines[1] == "gfx90a, bad.hip: Large uses 65540 bytes of LDS, but 65536 is the most"


def test_remarks_of_gfx906_have_no_agprs() -> None:
    tail = " [-Rpass-analysis=kernel-resource-usage]"
    values = (
        *("Function Name: _Z4Copyi", "    SGPRs: 12", "    VGPRs: 34", "    ScratchSize [bytes/lane]: 0"),
        *("    Occupancy [waves/SIMD]: 7", "    SGPRs Spill: 5", "    LDS Size [bytes/block]: 128"),
    )
    text = "\n".join(f"a.hip:1:1: remark: {value}{tail}" for value in values)
    # A function that was not inlined has no LDS of its own, and its kernels count the rest.
    text += f"\na.hip:9:1: remark: Function Name: _Z6Calledi{tail}\na.hip:9:1: remark:     VGPRs: 1{tail}\n"
    assert parse_remarks(text, "gfx906", "a.hip") == [
        KernelResources("gfx906", "a.hip", "Copy", 34, 0, 12, 128, 0, 7)
    ]


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        (
            "void hygon_backend::Kernel<hygon_backend::BFloat16, 64, true, hygon_backend::arch::MatrixUnit>"
            "(hygon_backend::Params, int)",
            "Kernel<BFloat16, 64, true, MatrixUnit>",
        ),
        ("hygon_backend::(anonymous namespace)::WriteWaveWidth(int*)", "WriteWaveWidth"),
    ],
)
def test_short_names(signature: str, expected: str) -> None:
    assert short_name(signature) == expected


def test_the_table_survives_its_file(compiler: AmdCompiler) -> None:
    kernels = [KernelResources("gfx906", "a.hip", "Copy", 34, 0, 12, 128, 0, 7)]
    assert read_json(render_json(compiler, kernels)) == (compiler.version, kernels)


def test_a_source_that_does_not_compile_shows_why(
    compiler: AmdCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "csrc" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "bad.hip").write_text("#error no such luck\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildError, match=r"compiling csrc/kernels/bad.hip for .* failed(.|\n)*no such luck"):
        measure_all(compiler, tmp_path / "cache", 1)


def test_a_missing_compiler_is_refused(tools: ToolFolder, tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(lambda: find_amd_compiler(tmp_path, tools.which)) == (
        "clang-19 is not on PATH: run tools/setup_amd.sh as root, which installs Debian's packages."
    )


def test_missing_device_libraries_are_refused(tools: ToolFolder, tmp_path: Path, refusal: Refusal) -> None:
    tools.add("clang-19", "exit 0")
    tools.add("llvm-cxxfilt-19", "exit 0")
    assert refusal(lambda: find_amd_compiler(tmp_path / "links", tools.which, tmp_path)) == (
        f"ROCm's device libraries are not below {tmp_path}: "
        "run tools/setup_amd.sh as root, which installs Debian's packages."
    )
