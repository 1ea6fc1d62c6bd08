"""What each kernel needs of an AMD chip: registers, LDS, scratch memory; and the limits that we set."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from build_support.amd_compiler import AmdCompiler, demangle
from build_support.archs import HIP_ARCHS
from build_support.device import KERNEL_DIR
from build_support.errors import BuildError
from build_support.tools import run_tool

ARCHS = HIP_ARCHS["amd"]
LDS_LIMIT = 65_536
"""Bytes that a block may have on every chip of targets amd and hcu."""

_REMARK = re.compile(r"remark:\s+(?P<key>[^:]+): (?P<value>.+) \[-Rpass-analysis=kernel-resource-usage\]$")
_FIELDS = {
    "VGPRs": "vgprs",
    "AGPRs": "agprs",
    "SGPRs": "sgprs",
    "LDS Size [bytes/block]": "lds_bytes",
    "ScratchSize [bytes/lane]": "scratch_bytes",
    "Occupancy [waves/SIMD]": "waves_per_simd",
}


@dataclass(frozen=True, order=True)
class KernelResources:
    """One kernel on one chip. gfx906 has no AGPRs."""

    arch: str
    source: str
    kernel: str
    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    waves_per_simd: int

    def complaints(self) -> list[str]:
        """One line for each limit that the kernel breaks."""
        where = f"{self.arch}, {self.source}: {self.kernel}"
        lines = []
        if self.scratch_bytes > 0:
            lines.append(
                f"{where} uses {self.scratch_bytes} bytes of scratch memory a lane, but must use none"
            )
        if self.lds_bytes > LDS_LIMIT:
            lines.append(f"{where} uses {self.lds_bytes} bytes of LDS, but {LDS_LIMIT} is the most")
        return lines


def measure_all(compiler: AmdCompiler, cache: Path, workers: int) -> list[KernelResources]:
    """Compiles every kernel source for every chip. Unchanged sources come out of the `cache` folder."""
    headers = sorted(KERNEL_DIR.rglob("*.h"))
    sources = sorted(KERNEL_DIR.glob("*.hip"))
    # Those that multiply take longest; begun last, one would run alone at the end.
    jobs = sorted(
        ((source, arch) for source in sources for arch in ARCHS),
        key=lambda job: not job[0].name.startswith(("prefix_prefill_", "paged_decode_")),
    )
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(lambda job: _measure(compiler, job[0], job[1], headers, cache), jobs)
        return sorted(kernel for kernels in results for kernel in kernels)


def parse_remarks(text: str, arch: str, source: str) -> list[KernelResources]:
    """Reads what clang prints under -Rpass-analysis=kernel-resource-usage."""
    found: list[tuple[str, dict[str, int]]] = []
    for line in text.splitlines():
        match = _REMARK.search(line)
        if match is None:
            continue
        key, value = match["key"].strip(), match["value"].strip()
        if key == "Function Name":
            found.append((value, {"agprs": 0}))
        elif key in _FIELDS:
            found[-1][1][_FIELDS[key]] = int(value)
    # Only kernels own LDS: what lacks the line is a function that was not inlined, and its kernels count it.
    kernels = [(symbol, fields) for symbol, fields in found if "lds_bytes" in fields]
    names = [short_name(name) for name in demangle([symbol for symbol, _ in kernels])]
    return [
        KernelResources(arch, source, name, **fields)
        for name, (_, fields) in zip(names, kernels, strict=True)
    ]


def short_name(signature: str) -> str:
    """Reduces a demangled kernel to its name and template arguments."""
    name = signature.removeprefix("void ")
    for scope in ("(anonymous namespace)::", "hygon_backend::", "arch::", "detail::"):
        name = name.replace(scope, "")
    return name.partition("(")[0]


def complaints(kernels: Iterable[KernelResources]) -> list[str]:
    """One line for each limit that a kernel breaks."""
    return [line for kernel in kernels for line in kernel.complaints()]


def render_json(compiler: AmdCompiler, kernels: Sequence[KernelResources]) -> str:
    """The measurement as a file for machines."""
    content = {"compiler": compiler.version, "kernels": [asdict(kernel) for kernel in kernels]}
    return json.dumps(content, indent=1) + "\n"


def read_json(text: str) -> tuple[str, list[KernelResources]]:
    """The compiler's version and the kernels of a file that `render_json` wrote."""
    content = json.loads(text)
    return content["compiler"], [KernelResources(**kernel) for kernel in content["kernels"]]


def render_markdown(version: str, kernels: Sequence[KernelResources]) -> str:
    """The measurement as a page for people."""
    lines = [
        "# What the kernels need on AMD chips",
        "",
        "Made by `make amd`; do not edit. Compiled, never run: no AMD card was at hand. `make test` fails",
        f"where a kernel uses scratch memory or more than {LDS_LIMIT:,} bytes of LDS, and where this page is",
        "out of date.",
        "",
        f"Compiler: {version}.",
        "",
        "Registers are per lane (SGPRs per wave), LDS per block, scratch per lane. *Waves* is how many a",
        "SIMD holds at once by registers and LDS together. gfx906 has no matrix unit: there `MatrixUnit`",
        "multiplies lane by lane.",
    ]
    for arch in ARCHS:
        lines += [
            *("", f"## {arch}", ""),
            "| source | kernel | VGPR | AGPR | SGPR | LDS | scratch | waves |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        for k in kernels:
            if k.arch == arch:
                numbers = (k.vgprs, k.agprs, k.sgprs, k.lds_bytes, k.scratch_bytes, k.waves_per_simd)
                lines.append(f"| {k.source} | `{k.kernel}` | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"


def _measure(
    compiler: AmdCompiler, source: Path, arch: str, headers: Sequence[Path], cache: Path
) -> list[KernelResources]:
    options = ("-Rpass-analysis=kernel-resource-usage", "-c")
    # Where the device libraries lie says nothing; their version does.
    identity = (compiler.version, *replace(compiler, bitcode=Path()).command(arch, *options), source.name)
    digest = hashlib.sha256("\0".join(identity).encode())
    for file in (source, *headers):
        digest.update(file.read_bytes())
    cached = cache / f"{source.stem}-{arch}-{digest.hexdigest()[:16]}.txt"
    if not cached.exists():
        result = run_tool((*compiler.command(arch, *options), str(source), "-o", "/dev/null"))
        if result.returncode != 0:
            raise BuildError(f"compiling {source} for {arch} failed; clang's messages:\n{result.stdout}")
        cache.mkdir(parents=True, exist_ok=True)
        # Renaming is all or nothing: a half-written file would be believed the next time.
        unfinished = cached.with_suffix(".tmp")
        unfinished.write_text(result.stdout)
        unfinished.replace(cached)
    return parse_remarks(cached.read_text(), arch, source.name)
