"""The setuptools command that builds the extension."""

import os
import shlex
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from build_support.device import KERNEL_DIR
from build_support.info import BuildInfo, write_header
from build_support.machine import probe_machine
from build_support.objects import CompileJob, compile_all, make_job, run_step, worker_count
from build_support.requirements import PYBIND11_MINIMUM, require_version
from build_support.target import Selection, select_target
from build_support.toolchain import Toolchain, find_toolchain

_CSRC = Path("csrc")


class BuildExtension(build_ext):
    """Compiles the C++ sources and the target's kernels, and links them with the target's driver.

    setuptools compiles and links with one compiler only. Here up to two take part, and the device
    compiler has to link, so this class replaces that step and leaves everything around it alone.
    """

    def build_extension(self, ext: Extension) -> None:
        """Builds `ext`; every refusal happens before the first compilation."""
        pybind11_include = _pybind11_include()
        workers = worker_count(os.environ, os.cpu_count() or 1)
        selection = select_target(os.environ, probe_machine, shutil.which)
        toolchain = find_toolchain(
            selection,
            os.environ,
            shutil.which,
            python_cxx=sysconfig.get_config_var("CXX"),
            python_include=sysconfig.get_path("include"),
        )

        temp = Path(self.build_temp)
        kernels = sorted(KERNEL_DIR.glob("*.hip")) if toolchain.device else []
        info = self._build_info(selection, toolchain, kernels)
        header = write_header(info, temp / "generated")
        jobs = _jobs(
            ext, toolchain, kernels, temp, include_dirs=(str(_CSRC), str(header.parent), pybind11_include)
        )
        objects = compile_all(jobs, [header, *_CSRC.rglob("*.h")], workers)

        library = Path(self.get_ext_fullpath(ext.name))
        library.parent.mkdir(parents=True, exist_ok=True)
        flags = shlex.split(os.environ.get("LDFLAGS", ""))
        command = (*toolchain.linker, *map(str, objects), "-o", str(library), *flags)
        run_step(command, f"linking {library.name}")

    def _build_info(self, selection: Selection, toolchain: Toolchain, kernels: list[Path]) -> BuildInfo:
        return BuildInfo(
            version=self.distribution.get_version(),
            target=selection.target,
            archs=selection.archs,
            compiler=toolchain.compiler,
            kernels=[kernel.stem for kernel in kernels],
        )


def _jobs(
    ext: Extension,
    toolchain: Toolchain,
    kernels: list[Path],
    temp: Path,
    include_dirs: tuple[str, ...],
) -> list[CompileJob]:
    cxx = (*toolchain.cxx, *(f"-I{folder}" for folder in include_dirs))
    jobs = [make_job(Path(source), temp, cxx, toolchain.compiler) for source in ext.sources]
    if toolchain.device:
        jobs += [make_job(kernel, temp, toolchain.device, toolchain.compiler) for kernel in kernels]
    return jobs


def _pybind11_include() -> str:
    try:
        import pybind11
    except ModuleNotFoundError:
        require_version("pybind11", None, PYBIND11_MINIMUM)
        raise
    require_version("pybind11", pybind11.__version__, PYBIND11_MINIMUM)
    return pybind11.get_include()
