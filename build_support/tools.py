"""Finding and running command-line tools."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

Environment = Mapping[str, str]
Which = Callable[[str], str | None]

_TOOLKIT_ROOTS = {
    "nvcc": ("CUDA_HOME", "CUDA_PATH"),
    "hipcc": ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"),
}


def find_tool(name: str, env: Environment, which: Which) -> str | None:
    """Path of a toolkit's compiler: in the folder its variable names, else on PATH."""
    roots = (env.get(variable) for variable in _TOOLKIT_ROOTS[name])
    for root in filter(None, roots):
        if found := which(f"{root}/bin/{name}"):
            return found
    return which(name)


def run_tool(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command with stdout and stderr captured together; never raises on its exit status."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )


def main_complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The one line of a failed tool's output that says most: its first error, else its last line."""
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|fatal)\b", line, re.IGNORECASE)]
    return (errors or lines[-1:] or [f"exit status {result.returncode}"])[0]
