"""SGLang's Triton decode attention, called as its TritonAttnBackend calls it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch

from benchmarks.cases import HEAD_SIZE
from benchmarks.peers.base import require_card
from benchmarks.problem import Problem

_MAX_KV_SPLITS = 8
"""SGLang's default of --triton-attention-num-kv-splits."""


class SglangTriton:
    """Keys are addressed by token slot, as the engine does at every page size."""

    name = "sglang-triton"

    def prepare(self, problem: Problem) -> Callable[[], torch.Tensor]:
        """See `Peer.prepare`."""
        require_card(problem)
        decode = importlib.import_module("sglang.kernels.ops.attention.decode_attention")
        case, q = problem.case, problem.q
        partial = (case.batch, case.heads_q, _MAX_KV_SPLITS)
        out = torch.empty_like(q)
        arguments = {
            "q": q,
            "k_buffer": problem.k_cache.flatten(0, 1),
            "v_buffer": problem.v_cache.flatten(0, 1),
            "o": out,
            "kv_indptr": torch.arange(case.batch + 1, dtype=torch.int32, device=q.device) * case.length,
            "kv_indices": _slots(problem),
            "attn_logits": torch.empty(*partial, HEAD_SIZE, dtype=torch.float32, device=q.device),
            "attn_lse": torch.empty(partial, dtype=torch.float32, device=q.device),
            "num_kv_splits": _kv_splits(problem),
            "max_kv_splits": _MAX_KV_SPLITS,
            "sm_scale": problem.scale,
            "k_scale": 1.0,
            "v_scale": 1.0,
            # The engine asks its compiled extension, which answers by the same rule.
            "use_pdl": torch.cuda.get_device_capability(q.device)[0] >= 9,
            "page_size": case.page,
        }

        def call() -> torch.Tensor:
            decode.decode_attention_fwd(**arguments)
            return out

        return call


def _slots(problem: Problem) -> torch.Tensor:
    """Slot of every key, sequence after sequence."""
    offsets = torch.arange(problem.case.page, device=problem.device)
    slots = problem.block_table.long()[:, :, None] * problem.case.page + offsets
    return slots.flatten(1)[:, : problem.case.length].flatten()


def _kv_splits(problem: Problem) -> torch.Tensor:
    """Splits of each sequence by the engine's own scheduling kernel."""
    metadata = importlib.import_module("sglang.kernels.ops.attention.metadata")
    case = problem.case
    splits = torch.empty(case.batch, dtype=torch.int32, device=problem.device)
    metadata.get_num_kv_splits_triton[(1,)](
        splits,
        problem.seq_lens,
        case.batch,
        1,
        case.heads_q,
        case.heads_kv,
        _MAX_KV_SPLITS,
        torch.cuda.get_device_properties(problem.device).multi_processor_count,
        MAX_NUM_SEQ=max(256, 1 << (case.batch - 1).bit_length()),
    )
    return splits
