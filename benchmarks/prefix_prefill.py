"""Prefill over a paged cache against the attention kernels of torch, vLLM, SGLang and FlashInfer, in one run.

    python -m benchmarks.prefix_prefill                                       the full grid
    python -m benchmarks.prefix_prefill --cells heads=32/8 lengths=512/51200  chosen values of some axes

Measured is how many operations a second one layer gets through, counting query-key pairs that the causal mask
leaves, next to what a large matrix product reaches on the same device in the same run. All implementations
read the same data: bfloat16, head size 128, one sequence, pages in random order; the two of torch and
`ours-contiguous` read it in one piece. A value is kept only if the result of the very call that is timed
agrees with a float32 computation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import prefill_peers
from benchmarks.cases import with_values
from benchmarks.compare import DeviceLostError, describe, measure
from benchmarks.prefill_cases import FULL, prefill_cells
from benchmarks.prefill_problem import PrefillProblem
from benchmarks.problem import DTYPE
from benchmarks.results import FOLDER, Results, Row
from benchmarks.timing import Timer

METRIC = "flops_per_second"
_FASTEST = 1.1
"""Of the matrix product's rate."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen cells and writes the record after each; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parse(arguments)
    sys.path.extend(str(path.resolve()) for path in options.peer_packages)
    device = torch.device(options.device)
    peers = [peer for peer in _peers() if not options.peers or peer.name in options.peers]
    timer = Timer(device)
    limit = _matrix_rate(timer)
    results = Results.started(["python", "-m", "benchmarks.prefix_prefill", *arguments], describe(device))
    for case in prefill_cells(with_values(FULL, options.cells)):
        row = Row(str(case), METRIC, None, limit)
        results.rows.append(row)
        try:
            problem = PrefillProblem(case, device)
            measure(row, problem, case.flops, timer, peers, prefill_peers.Ours(), _FASTEST)
        except DeviceLostError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            results.write(options.json)
            print(row, flush=True)
    return 0


def _peers() -> list[prefill_peers.PrefillPeer]:
    return [
        prefill_peers.TorchFlash(),
        prefill_peers.TorchCudnn(),
        prefill_peers.VllmTriton(),
        prefill_peers.SglangTriton(),
        prefill_peers.FlashInferPaged(),
        prefill_peers.OursContiguous(),
    ]


def _matrix_rate(timer: Timer) -> float:
    """Operations a second of a large matrix product."""
    size = 8192 if timer.device.type == "cuda" else 512
    a, b = (torch.randn(size, size, dtype=DTYPE, device=timer.device) for _ in range(2))
    return 2 * size**3 / timer.seconds(timer.prepare(lambda: a @ b))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefix_prefill", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="AXIS=VALUES",
        help=f"replace an axis of the grid, as in page=16,64; axes: {', '.join(FULL)}",
    )
    parser.add_argument("--peers", nargs="+", default=[], metavar="NAME", help="only these peers")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--peer-packages",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="look here for Python packages that are not installed (see collect_peers.sh)",
    )
    parser.add_argument("--json", type=Path, default=FOLDER / "prefix_prefill.json", metavar="PATH")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
