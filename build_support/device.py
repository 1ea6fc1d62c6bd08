"""The device compilers: nvcc for target nvidia, hipcc for hcu and amd."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from build_support.archs import HipTarget
from build_support.errors import BuildError
from build_support.tools import Environment, Which, find_tool, main_complaint, run_tool
from build_support.trial import try_build

KERNEL_DIR = Path("csrc/kernels")
NVIDIA_SHIM_DIR = KERNEL_DIR / "arch" / "nvidia_shim"
CUDA_MINIMUM = 12

_DEVICE_TRIAL = """\
#include <hip/hip_runtime.h>
__global__ void Kernel(int* out) { *out = 1; }
hipError_t Trial(int* out) {
  hipLaunchKernelGGL(Kernel, dim3(1), dim3(1), 0, nullptr, out);
  return hipGetLastError();
}
"""


@dataclass(frozen=True)
class DeviceCompiler:
    """A device compiler that answered when asked for its version."""

    path: str
    version: str
    compile: tuple[str, ...]
    """Takes `-c SOURCE -o OBJECT`."""
    link: tuple[str, ...]
    """Takes objects and `-o LIBRARY`; adds the runtime library, whose name and place it knows."""
    repair: str
    """What to do when it runs but cannot build."""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{Path(self.path).name} {self.version}"


def find_nvcc(archs: Sequence[str], env: Environment, which: Which) -> DeviceCompiler:
    """Finds nvcc; raises BuildError if it is absent, broken or too old."""
    path = find_tool("nvcc", env, which)
    if path is None:
        raise BuildError(
            "target nvidia needs nvcc, which is neither under CUDA_HOME nor on PATH: "
            f"install the CUDA toolkit {CUDA_MINIMUM} or newer, or set CUDA_HOME."
        )
    repair = "install the CUDA toolkit whole (compiler, runtime headers and cudart)"
    version = _ask_version(path, r"\bV(\d+\.\d+\.\d+)", repair)
    if int(version.split(".")[0]) < CUDA_MINIMUM:
        raise BuildError(
            f"{path} is version {version}, but target nvidia needs CUDA {CUDA_MINIMUM} or newer: "
            "install a newer toolkit, or point CUDA_HOME at one."
        )
    arch_flags = (f"-arch={arch}" for arch in archs)
    includes = (f"-I{NVIDIA_SHIM_DIR}", f"-I{KERNEL_DIR}")
    return DeviceCompiler(
        path,
        version,
        compile=(path, "-x", "cu", *arch_flags, "-std=c++17", "-O3", *includes, "-Xcompiler", "-fPIC"),
        # Without this option nvcc rejects LDFLAGS that are meant for the host's linker.
        link=(path, "-forward-unknown-to-host-compiler", "-shared"),
        repair=repair,
    )


def find_hipcc(target: HipTarget, archs: Sequence[str], env: Environment, which: Which) -> DeviceCompiler:
    """Finds hipcc; raises BuildError if it is absent or broken."""
    toolkit = {"hcu": "DTK, Hygon's toolkit", "amd": "ROCm"}[target]
    path = find_tool("hipcc", env, which)
    if path is None:
        raise BuildError(
            f"target {target} needs hipcc, which is neither under ROCM_PATH nor on PATH: "
            f"install {toolkit}, and load its environment or set ROCM_PATH."
        )
    repair = f"install {toolkit} whole, in a version that knows the card"
    # ROCm's hipcc turns into a front end of nvcc where it finds one, unless it is told its platform.
    # DTK's may know platforms by other names, so it is left to its own environment.
    told = target == "hcu" or "HIP_PLATFORM" in env
    command = (path,) if told else ("env", "HIP_PLATFORM=amd", path)
    arch_flags = tuple(f"--offload-arch={arch}" for arch in archs)
    # Hygon's compiler has AMD's MFMA builtins too, but the instruction faults on its cards.
    defines = ("-DHYGON_TARGET_HCU",) if target == "hcu" else ()
    return DeviceCompiler(
        path,
        _ask_version(path, r"HIP version:\s*(\S+)", repair),
        compile=(*command, *arch_flags, *defines, "-std=c++17", "-O3", f"-I{KERNEL_DIR}", "-fPIC"),
        # Without the archs hipcc would look for a card here too, and complain where there is none.
        link=(*command, *arch_flags, "-shared"),
        repair=repair,
    )


def check_device_compiler(compiler: DeviceCompiler, archs: Sequence[str]) -> None:
    """Raises BuildError unless `compiler` builds a small kernel for `archs` and links it."""
    complaint = try_build(compiler.compile, compiler.link, "trial.hip", _DEVICE_TRIAL)
    if complaint:
        raise BuildError(
            f"{compiler.path} {compiler.version} cannot build for {', '.join(archs)} "
            f"(its message: {complaint}): {compiler.repair}."
        )


def _ask_version(path: str, pattern: str, repair: str) -> str:
    result = run_tool([path, "--version"])
    match = re.search(pattern, result.stdout)
    if result.returncode != 0 or match is None:
        raise BuildError(f"{path} --version fails (its message: {main_complaint(result)}): {repair}.")
    return match[1]
