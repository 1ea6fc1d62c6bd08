"""Compiles every kernel for AMD chips and writes down what it needs: registers, LDS, scratch memory.

Writes benchmarks/results/amd_resources.json and docs/amd_resources.md. Ends with status 1, and a line
for each, where a kernel uses scratch memory or more LDS than a block may have.
"""

import os
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))  # build_support is no part of the installed package

from build_support.amd_compiler import find_amd_compiler  # noqa: E402
from build_support.amd_resources import complaints, measure_all, render_json, render_markdown  # noqa: E402
from build_support.objects import worker_count  # noqa: E402

RESULT = Path("benchmarks/results/amd_resources.json")
PAGE = Path("docs/amd_resources.md")
CACHE = Path(".cache/amd")


def main() -> int:
    """Runs from any folder; paths are the checkout's."""
    os.chdir(CHECKOUT)
    start = time.monotonic()
    compiler = find_amd_compiler(CACHE / "bitcode")
    kernels = measure_all(compiler, CACHE, worker_count(os.environ, os.cpu_count() or 1))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(render_json(compiler, kernels))
    PAGE.write_text(render_markdown(compiler.version, kernels))
    print(f"{len(kernels)} kernels in {time.monotonic() - start:.0f} s: wrote {RESULT} and {PAGE}")
    broken = complaints(kernels)
    print("\n".join(broken), end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
