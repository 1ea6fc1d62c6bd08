# ruff: noqa: N999  (the name of the file is the name of the compiled module)
# Of the kernels only their presence is told: hygon_backend.native_path, their one caller, takes the
# module as an argument, since the tests build a second one over emulated kernels.
from hygon_backend.native import BuildInfo

def build_info() -> BuildInfo:
    """How this module was built."""

def probe_wave_width() -> int:
    """Number of lanes in a wave of the current device; absent from builds without device kernels."""
