"""Paged decode against the attention kernels of torch, vLLM, SGLang and FlashInfer, in one run.

    python -m benchmarks.paged_decode                                  the full grid
    python -m benchmarks.paged_decode --quick                          a few cells
    python -m benchmarks.paged_decode --cells batch=64 length=8192     chosen values of some axes

Measured is how many bytes of keys and values a second a decode step of one layer gets through, next to
what a large copy moves on the same device in the same run. All implementations read the same data: bfloat16,
head size 128, separate key and value pools with pages in random order. A value is kept only if the result of
the very call that is timed agrees with a float32 computation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from benchmarks.cases import FULL, QUICK, Case, cells, with_values
from benchmarks.compare import DeviceLostError, describe, measure
from benchmarks.peers.base import Peer
from benchmarks.peers.flashinfer import FlashInfer
from benchmarks.peers.ours import Ours
from benchmarks.peers.sglang_triton import SglangTriton
from benchmarks.peers.torch_sdpa import TorchSdpa
from benchmarks.peers.vllm_triton import VllmTriton
from benchmarks.problem import Pool, Problem
from benchmarks.results import FOLDER, Results, Row
from benchmarks.timing import Timer

METRIC = "kv_bytes_per_second"
_FASTEST = 1.25
"""Of the copy bandwidth: memory is read somewhat faster than copied, but not more than this."""
_COPIES = 3
"""Most copies of a cell's keys and values that exist at a time: the pool, the gathered ones, and one of the
two while it is being made dense."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen cells and writes the record after each; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parse(arguments)
    sys.path.extend(str(path.resolve()) for path in options.peer_packages)
    device = torch.device(options.device)
    axes = with_values(QUICK if options.quick else FULL, options.cells)
    cases = cells(axes)
    fitting = [case for case in cases if _bytes_needed(case) <= options.memory_gb * 1e9]
    peers = _peers()
    timer = Timer(device)
    limit = timer.copy_bandwidth()
    results = Results.started(["python", "-m", "benchmarks.paged_decode", *arguments], describe(device))
    pool = Pool(fitting, device) if fitting else None
    for case in cases:
        row = Row(str(case), METRIC, None, limit)
        results.rows.append(row)
        if pool is None or case not in fitting:
            reason = f"needs {_bytes_needed(case) / 1e9:.0f} GB, more than --memory-gb {options.memory_gb:g}"
            row.peers = dict.fromkeys((peer.name for peer in peers), None)
            row.why = dict.fromkeys(("ours", *row.peers), reason)
            continue
        try:
            problem = Problem(case, pool)
            measure(
                row, problem, case.kv_bytes, timer, peers, None if options.peers_only else Ours(), _FASTEST
            )
        except DeviceLostError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            results.write(options.json)
            print(row, flush=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    results.write(options.json)
    return 0


def _peers() -> list[Peer]:
    return [
        TorchSdpa("sdpa-flash", SDPBackend.FLASH_ATTENTION),
        TorchSdpa("sdpa-cudnn", SDPBackend.CUDNN_ATTENTION),
        VllmTriton(),
        SglangTriton(),
        FlashInfer("flashinfer", use_tensor_cores=False),
        FlashInfer("flashinfer-tc", use_tensor_cores=True),
    ]


def _bytes_needed(case: Case) -> int:
    return _COPIES * case.kv_bytes


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paged_decode", description=__doc__.split("\n")[0]
    )
    on_card = torch.cuda.is_available()
    parser.add_argument("--quick", action="store_true", help="a few cells instead of the full grid")
    parser.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="AXIS=VALUES",
        help=f"replace an axis of the grid, as in batch=1,64; axes: {', '.join(FULL)}",
    )
    parser.add_argument("--peers-only", action="store_true", help="leave our own operator out")
    parser.add_argument("--device", default="cuda" if on_card else "cpu")
    parser.add_argument("--memory-gb", type=float, default=120 if on_card else 4, help="skip larger cells")
    parser.add_argument(
        "--peer-packages",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="look here for Python packages that are not installed (see collect_peers.sh)",
    )
    parser.add_argument("--json", type=Path, default=FOLDER / "paged_decode.json", metavar="PATH")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
