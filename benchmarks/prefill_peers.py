"""Implementations of prefill over a cache that are measured side by side."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.cases import HEAD_SIZE
from benchmarks.peers import vllm_triton
from benchmarks.peers.base import PeerOf, PeerUnavailableError, require_card
from benchmarks.prefill_problem import PrefillProblem
from benchmarks.problem import DTYPE
from hygon_backend import dispatch, ops
from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.prefill_call import PagedTable, PrefillCall
from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.kv_layout import KVLayout
from hygon_backend.native_path import prefix_prefill as native_prefix_prefill

PrefillPeer = PeerOf[PrefillProblem]


class Ours:
    """`hygon_backend.ops.prefix_prefill` with its own choice of split."""

    name = "ours"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        out = torch.empty_like(problem.q)

        def call() -> torch.Tensor:
            ops.prefix_prefill(
                problem.q,
                problem.k_cache,
                problem.v_cache,
                problem.block_table,
                problem.cu_seqlens_q,
                problem.seq_lens,
                scale=problem.scale,
                out=out,
            )
            return out

        return call


class OursContiguous:
    """The same kernel over keys and values that lie in one piece: a single page as long as the sequence."""

    name = "ours-contiguous"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        key, value = (part.unsqueeze(0) for part in problem.dense)
        call = PrefillCall(
            q=problem.q,
            cache=PagedCache(key, value, KVLayout.BSHD, problem.case.kv_len, None, None),
            table=PagedTable(torch.zeros_like(problem.block_table[:, :1]), problem.seq_lens),
            cu_seqlens_q=problem.cu_seqlens_q,
            rules=ScoreRules(problem.scale, True, None, None, None, None),
            q_scale=None,
            custom_mask=None,
            out=torch.empty_like(problem.q),
            lse=None,
            partition_size=None,
        )
        module = dispatch.choose(problem.device, native_prefix_prefill.supports(call))
        if module is None:
            raise PeerUnavailableError("the build has no kernels for this card")

        def run() -> torch.Tensor:
            native_prefix_prefill.run(module, call)
            return call.out

        return run


class TorchFlash:
    """FlashAttention-2 as torch builds it, over keys and values that are no longer paged."""

    name = "sdpa-flash"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        key, value = problem.dense
        case = problem.case

        # scaled_dot_product_attention aligns its causal mask top-left; what it calls aligns it bottom-right.
        def call() -> torch.Tensor:
            out: torch.Tensor = torch.ops.aten._flash_attention_forward(
                problem.q.unsqueeze(0),
                key.unsqueeze(0),
                value.unsqueeze(0),
                None,
                None,
                case.q_len,
                case.kv_len,
                0.0,
                True,
                False,
                scale=problem.scale,
            )[0]
            return out[0]

        return call


class TorchCudnn:
    """cuDNN's attention as torch calls it, over keys and values that are no longer paged."""

    name = "sdpa-cudnn"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        if problem.case.q_len != problem.case.kv_len:
            raise PeerUnavailableError("torch gives cuDNN a causal mask that is aligned top-left only")
        key, value = (part.transpose(0, 1).unsqueeze(0) for part in problem.dense)
        q = problem.q.transpose(0, 1).unsqueeze(0)
        backend = torch.nn.attention.SDPBackend.CUDNN_ATTENTION

        def call() -> torch.Tensor:
            with torch.nn.attention.sdpa_kernel(backend):
                out = torch.nn.functional.scaled_dot_product_attention(
                    q, key, value, is_causal=True, scale=problem.scale, enable_gqa=True
                )
            return out[0].transpose(0, 1)

        return call


class VllmTriton:
    """vLLM's Triton unified attention, called as its TritonAttentionBackend calls it for a prefill."""

    name = "vllm-triton"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        attention = vllm_triton.load()
        out = torch.empty_like(problem.q)
        arguments = {
            "q": problem.q,
            "k": problem.k_cache,
            "v": problem.v_cache,
            "out": out,
            "cu_seqlens_q": problem.cu_seqlens_q,
            "max_seqlen_q": problem.case.q_len,
            "seqused_k": problem.seq_lens,
            "max_seqlen_k": problem.case.kv_len,
            "softmax_scale": problem.scale,
            "causal": True,
            "window_size": (-1, -1),
            "block_table": problem.block_table,
            "softcap": 0,
            "q_descale": None,
            "k_descale": None,
            "v_descale": None,
        }

        def call() -> torch.Tensor:
            attention.unified_attention(**arguments)
            return out

        return call


class SglangTriton:
    """SGLang's Triton extend attention, called as its TritonAttnBackend calls it: the prefix by token slot,
    the new tokens dense."""

    name = "sglang-triton"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        extend = importlib.import_module("sglang.kernels.ops.attention.extend_attention")
        case = problem.case
        prefix = case.kv_len - case.q_len
        key, value = (part[prefix:].contiguous() for part in problem.dense)
        out = torch.empty_like(problem.q)
        indptr = torch.tensor([0, prefix], dtype=torch.int32, device=problem.device)
        slots = problem.slots[:prefix]

        def call() -> torch.Tensor:
            extend.extend_attention_fwd(
                problem.q,
                key,
                value,
                out,
                problem.k_cache.flatten(0, 1),
                problem.v_cache.flatten(0, 1),
                problem.cu_seqlens_q,
                indptr,
                slots,
                None,
                True,
                None,
                case.q_len,
                1.0,
                1.0,
                sm_scale=problem.scale,
                page_size=case.page,
            )
            return out

        return call


class FlashInferPaged:
    """FlashInfer's batch prefill over the paged cache, layout NHD, its FA2 template, planned once a step."""

    name = "flashinfer-fa2"

    def prepare(self, problem: PrefillProblem) -> Callable[[], torch.Tensor]:
        """See `PeerOf.prepare`."""
        require_card(problem)
        case = problem.case
        wrapper = self._wrapper
        wrapper.plan(
            torch.tensor([0, case.q_len], dtype=torch.int32),
            torch.tensor([0, case.num_pages], dtype=torch.int32),
            problem.block_table[0],
            torch.tensor([(case.kv_len - 1) % case.page + 1], dtype=torch.int32),
            case.heads_q,
            case.heads_kv,
            HEAD_SIZE,
            case.page,
            causal=True,
            sm_scale=problem.scale,
            q_data_type=DTYPE,
        )
        out = torch.empty_like(problem.q)

        def call() -> torch.Tensor:
            wrapper.run(problem.q, (problem.k_cache, problem.v_cache), out=out)
            return out

        return call

    @functools.cached_property
    def _wrapper(self) -> Any:  # noqa: ANN401 - a class of an optional package
        module = importlib.import_module("flashinfer")
        workspace = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
        return module.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend="fa2")
