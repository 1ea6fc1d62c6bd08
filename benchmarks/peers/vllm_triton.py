"""vLLM's Triton unified attention, called as its TritonAttentionBackend calls it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import torch

from benchmarks.peers.base import require_card
from benchmarks.problem import Problem

# The builder's own constants: importing its module would bring the whole engine configuration along.
_MIN_LAUNCH_GRID_SIZE_2D = 128
_NUM_PAR_SOFTMAX_SEGMENTS = 16
_CAPTURE_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))


class VllmTriton:
    """Split-KV ("3D") up to the engine's batch threshold, one block a sequence and KV head above it."""

    name = "vllm-triton"

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """See `Peer.prepare`."""
        require_card(problem)
        attention = load()
        case, q = problem.case, problem.q
        # As the engine does under full CUDA graphs, its default: the nearest batch size that it captures.
        wanted = _MIN_LAUNCH_GRID_SIZE_2D // case.heads_kv
        threshold = min(_CAPTURE_SIZES, key=lambda size: abs(size - wanted))
        scratch = (threshold, case.heads_q, _NUM_PAR_SOFTMAX_SEGMENTS)
        out = torch.empty_like(q)
        arguments = {
            "q": q,
            "k": problem.k_cache,
            "v": problem.v_cache,
            "out": out,
            "cu_seqlens_q": torch.arange(case.batch + 1, dtype=torch.int32, device=q.device),
            "max_seqlen_q": 1,
            "seqused_k": problem.seq_lens,
            "max_seqlen_k": case.length,
            "softmax_scale": problem.scale,
            "causal": True,
            "window_size": (-1, -1),
            "block_table": problem.block_table,
            "softcap": 0,
            "q_descale": None,
            "k_descale": None,
            "v_descale": None,
            "seq_threshold_3D": threshold,
            "num_par_softmax_segments": _NUM_PAR_SOFTMAX_SEGMENTS,
            "softmax_segm_output": torch.empty(*scratch, q.shape[2], dtype=torch.float32, device=q.device),
            "softmax_segm_max": torch.empty(scratch, dtype=torch.float32, device=q.device),
            "softmax_segm_expsum": torch.empty(scratch, dtype=torch.float32, device=q.device),
        }

        def call() -> torch.Tensor:
            attention.unified_attention(**arguments)
            return out

        return call


def load() -> ModuleType:
    """Imports vLLM's module, from a full installation or one without compiled extensions."""
    extension = "vllm._C_stable_libtorch"
    if extension not in sys.modules:
        try:
            importlib.import_module(extension)
        except ModuleNotFoundError as error:
            if error.name != extension:
                raise
            # vLLM's CUDA platform imports its compiled operators for their registration alone, and a build
            # for VLLM_TARGET_DEVICE=empty has none. The Triton kernel uses no compiled operator.
            sys.modules[extension] = ModuleType(extension)
    return importlib.import_module("vllm.v1.attention.ops.triton_unified_attention")
