from pathlib import Path

import pytest

from build_support.info import BuildInfo, render_header, write_header

HOST = BuildInfo("0.1.0", "host", (), "g++ 12", ())
NVIDIA = BuildInfo("0.1.0", "nvidia", ("sm_90",), "nvcc 13.0.88", ("first", "second"))


def test_a_host_build_says_that_it_has_no_kernels() -> None:
    assert HOST.note == "the host target compiles no device kernels"
    assert "#define HYGON_HAS_DEVICE_KERNELS 0\n" in render_header(HOST)


def test_a_device_build_lists_its_kernels() -> None:
    header = render_header(NVIDIA)
    assert NVIDIA.note == ""
    assert "#define HYGON_HAS_DEVICE_KERNELS 1\n" in header
    assert 'std::array<std::string_view, 2> kKernels{"first", "second"};' in header


@pytest.mark.parametrize(
    ("compiler", "literal"),
    [('say "hi" \\ there', '"say \\"hi\\" \\\\ there"'), ("g++ \u6d77\u5149\n\x1b", '"g++ ????"')],
)
def test_any_text_is_a_valid_literal(compiler: str, literal: str) -> None:
    header = render_header(BuildInfo("0", "host", (), compiler, ()))
    assert f"kCompiler = {literal};" in header


def test_an_unchanged_header_keeps_its_time(tmp_path: Path) -> None:
    header = write_header(HOST, tmp_path / "generated")
    before = header.stat().st_mtime_ns
    assert write_header(HOST, header.parent).stat().st_mtime_ns == before
    write_header(NVIDIA, header.parent)
    assert header.read_text() == render_header(NVIDIA)
