"""Which matrix unit the kernels reach on which chip, read from what the compiler makes of them.

No public compiler knows Hygon's chips: here clang compiles for gfx90a and is told that it were one of
theirs, with functions that are only declared in place of the MMAC builtins.
"""

import re
from pathlib import Path

import pytest

from build_support.amd_compiler import AmdCompiler, find_amd_compiler
from build_support.tools import run_tool

REPOSITORY = Path(__file__).resolve().parents[2]
KERNELS = REPOSITORY / "csrc" / "kernels"
SOURCES = sorted(path.name for path in KERNELS.glob("*.hip"))
MULTIPLYING = (
    "fragment_probe.hip",
    "paged_decode_f16.hip",
    "paged_decode_bf16_e4m3.hip",
    "prefix_prefill_bf16.hip",
    "prefix_prefill_f16_strided.hip",
)
FAMILIES = ("paged_decode_", "prefix_prefill_")

HCU = ("-DHYGON_TARGET_HCU", "-DHYGON_MMAC_STAND_IN")
LAYOUT_1 = (*HCU, "-D__gfx928__")
LAYOUT_2 = (*HCU, "-D__gfx938__")

# What the front end makes of a source, before any optimisation: quick, and an instruction that is not
# asked for here comes out nowhere.
IR = ("-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="session")
def compiler() -> AmdCompiler:
    return find_amd_compiler(REPOSITORY / ".cache" / "amd" / "bitcode")


def compiled(compiler: AmdCompiler, arch: str, source: Path, *options: str) -> str:
    result = run_tool([*compiler.command(arch, *options), "-Werror", str(source), "-o", "-"])
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.mark.parametrize("chip", [LAYOUT_1, LAYOUT_2], ids=["layout1", "layout2"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_kernel_compiles_for_hygon_and_stays_off_mfma(
    compiler: AmdCompiler, chip: tuple[str, ...], source: str
) -> None:
    code = compiled(compiler, "gfx90a", KERNELS / source, *chip, *IR)
    assert "mfma" not in code
    assert ("hygon_stand_in_mmac" in code) == (source in MULTIPLYING or source.startswith(FAMILIES))


@pytest.mark.parametrize("source", MULTIPLYING)
def test_amd_chips_with_a_matrix_unit_use_it(compiler: AmdCompiler, source: str) -> None:
    for arch in ("gfx90a", "gfx942"):
        assert "llvm.amdgcn.mfma" in compiled(compiler, arch, KERNELS / source, *IR)
    assert "mfma" not in compiled(compiler, "gfx906", KERNELS / source, *IR)


@pytest.mark.parametrize("source", MULTIPLYING)
def test_a_hygon_build_for_an_unforeseen_chip_stays_off_mfma(compiler: AmdCompiler, source: str) -> None:
    assert "mfma" not in compiled(compiler, "gfx90a", KERNELS / source, "-DHYGON_TARGET_HCU", *IR)


def test_the_assembly_of_a_hygon_build_has_no_mfma(compiler: AmdCompiler) -> None:
    source = KERNELS / "fragment_probe.hip"
    hygon = compiled(compiler, "gfx90a", source, *LAYOUT_1, "-S")
    assert "v_mfma" not in hygon
    assert "hygon_stand_in_mmac_f16" in hygon
    assert "v_mfma_f32_16x16x16f16" in compiled(compiler, "gfx90a", source, "-S"), "the search finds MFMA"


LAYOUT_OF = """\
#include "detail/matrix.h"
#if defined(__HIP_DEVICE_COMPILE__)
static_assert(std::is_base_of_v<hygon_backend::{base}, hygon_backend::MatrixUnit>);
#endif
"""


@pytest.mark.parametrize(
    ("chip", "base"),
    [
        ((*HCU, "-D__gfx926__"), "arch::MmacLayout1"),
        ((*HCU, "-D__gfx928__"), "arch::MmacLayout1"),
        ((*HCU, "-D__gfx936__"), "arch::MmacLayout1"),
        ((*HCU, "-D__gfx938__"), "arch::MmacLayout2"),
        (("-DHYGON_TARGET_HCU",), "FmaUnit"),
        # A compiler that has none of the builtins.
        (("-DHYGON_TARGET_HCU", "-D__gfx928__", "-Wno-#warnings"), "FmaUnit"),
    ],
)
def test_chips_have_their_layout(
    compiler: AmdCompiler, tmp_path: Path, chip: tuple[str, ...], base: str
) -> None:
    source = tmp_path / "layout.hip"
    source.write_text(LAYOUT_OF.format(base=base))
    compiled(compiler, "gfx90a", source, *chip, *IR)


def test_a_compiler_without_the_builtins_is_warned_of(compiler: AmdCompiler) -> None:
    command = compiler.command("gfx90a", "-DHYGON_TARGET_HCU", "-D__gfx928__", "-fsyntax-only")
    result = run_tool([*command, str(KERNELS / "fragment_probe.hip")])
    assert result.returncode == 0
    assert "has no MMAC builtin" in result.stdout


@pytest.mark.parametrize("source", MULTIPLYING)
@pytest.mark.parametrize(
    ("arch", "options"),
    [("gfx906", ()), ("gfx90a", ()), ("gfx90a", LAYOUT_1)],
    ids=["gfx906", "gfx90a", "hygon"],
)
def test_the_host_knows_kernels_by_the_names_that_the_device_has(
    compiler: AmdCompiler, source: str, arch: str, options: tuple[str, ...]
) -> None:
    # A unit named otherwise in the two passes would make every launch fail, and only on a card.
    device = compiled(compiler, arch, KERNELS / source, *options, *IR)
    # The macros that stand for a chip are the device pass's alone.
    seen_by_host = [option for option in options if "__gfx" not in option]
    host = compiled(compiler, arch, KERNELS / source, *seen_by_host, *IR, "--cuda-host-only")
    kernels = set(re.findall(r"define .*amdgpu_kernel void @(\w+)\(", device))
    assert kernels
    assert set(re.findall(r'c"(_Z\w+)\\00"', host)) == kernels
