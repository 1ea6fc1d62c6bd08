"""The attention backend: SGLang's calls translated into our operators, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from hygon_backend import ops, validation
from hygon_backend.errors import UnsupportedError
from hygon_backend.kv_layout import KVLayout
from hygon_backend.sglang_plugin import metadata, support
from hygon_backend.sglang_plugin.graph_state import GraphState
from hygon_backend.sglang_plugin.layer_rules import LayerRules, rules_of
from hygon_backend.sglang_plugin.metadata import HygonMetadata
from hygon_backend.sglang_plugin.pools import PagePools

if TYPE_CHECKING:
    from sglang.srt.layers.attention.verify_mask import VerifyMask
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.speculative.spec_info import SpecInput


class HygonAttentionBackend(AttentionBackend):
    """`hygon`: attention over the pages of SGLang's own KV pools, read and written where they lie."""

    needs_cpu_seq_lens = False

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__()
        sentence = support.explain_runner(runner)
        if sentence is not None:
            raise UnsupportedError(sentence)
        validation.partition_size(None)  # PA_PARTITION_SIZE: a bad value must not wait for the first request
        # Read by SGLang's wrappers and tools by these names.
        self.req_to_token_pool = runner.req_to_token_pool
        self.token_to_kv_pool = runner.token_to_kv_pool
        self.data_type = runner.kv_cache_dtype
        self.kv_cache_dtype = runner.kv_cache_dtype
        self.forward_metadata: HygonMetadata | None = None
        self._pools = PagePools(runner.req_to_token_pool, runner.token_to_kv_pool, runner.page_size)
        self._rules: dict[RadixAttention, LayerRules] = {}
        self._graphs: GraphState | None = None
        self._draft_tokens = support.draft_tokens(runner)
        self._max_context = runner.model_config.context_len

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Builds the metadata of a batch that runs eagerly."""
        self.forward_metadata = metadata.build(forward_batch, self._pools)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocates the buffers that captured batches read."""
        self._graphs = GraphState(
            self._pools,
            max_bs,
            max_num_tokens,
            self.req_to_token_pool.req_to_token.device,
            self._draft_tokens,
            self._max_context,
        )

    def init_forward_metadata_out_graph(self, forward_batch: ForwardBatch, in_capture: bool = False) -> None:
        """Binds a captured batch to the buffers, before its capture and before each replay."""
        self.forward_metadata = self._graph_state().bind(forward_batch)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatch) -> None:
        """Fills the buffers; captured, so that every replay does it again."""
        assert self.forward_metadata is not None
        self._graph_state().fill(forward_batch, self.forward_metadata)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """Length of the requests that pad a captured batch: one key, the pool's dummy slot."""
        return 1

    @property
    def verify_mask(self) -> VerifyMask | None:
        """The mask buffer that the draft stage may fill in place."""
        return None if self._graphs is None else self._graphs.verify_mask

    def update_verify_buffers_to_fill_after_draft(
        self, spec_info: SpecInput, cuda_graph_bs: int | None
    ) -> None:
        """Nothing depends on the mask's values: it is read where it lies."""

    def support_triton(self) -> bool:
        """No Triton kernel is needed to prepare our batches."""
        return False

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **options: object,
    ) -> torch.Tensor:
        """Attention of one new token per sequence; q `[num_seqs, Hq * D]`, result `[num_seqs, Hq * Dv]`."""
        call = self._begin(q, k, v, layer, forward_batch, save_kv_cache, options)
        ops.paged_decode(
            call.q,
            call.k_cache,
            call.v_cache,
            call.block_table,
            call.meta.seq_lens,
            scale=call.rules.scale,
            layout=KVLayout.BSHD,
            window=call.rules.window,
            softcap=call.rules.softcap,
            sinks=call.sinks,
            k_scale=call.k_scale,
            v_scale=call.v_scale,
            out=call.out,
        )
        return call.out.flatten(1)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **options: object,
    ) -> torch.Tensor:
        """Attention of new tokens over their sequences, prefixes included; q `[num_tokens, Hq * D]`."""
        call = self._begin(q, k, v, layer, forward_batch, save_kv_cache, options)
        meta = call.meta
        if not call.rules.causal and meta.has_prefix:
            raise UnsupportedError(
                f"layer {layer.layer_id} is an encoder layer, which must see a sequence whole: use "
                "--disable-radix-cache and --chunked-prefill-size -1"
            )
        assert meta.cu_seqlens_q is not None
        ops.prefix_prefill(
            call.q,
            call.k_cache,
            call.v_cache,
            call.block_table,
            meta.cu_seqlens_q,
            meta.seq_lens,
            scale=call.rules.scale,
            layout=KVLayout.BSHD,
            causal=call.rules.causal,
            window=call.rules.window,
            softcap=call.rules.softcap,
            sinks=call.sinks,
            k_scale=call.k_scale,
            v_scale=call.v_scale,
            custom_mask=meta.custom_mask,
            mask_indptr=meta.mask_indptr,
            out=call.out,
        )
        return call.out.flatten(1)

    def _begin(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        batch: ForwardBatch,
        save_kv_cache: bool,
        options: dict[str, object],
    ) -> _Call:
        """Checks a layer's call, stores its keys and values and bundles what attention needs."""
        sentence = support.explain_options(options)
        if sentence is not None:
            raise UnsupportedError(sentence)
        rules = self._rules.get(layer)
        if rules is None:
            rules = self._rules[layer] = rules_of(layer)
        meta = self.forward_metadata
        assert meta is not None
        k_cache, v_cache = self._pools.caches(layer.layer_id)
        windowed = self._pools.in_window_pool(layer.layer_id)
        block_table = meta.window_block_table if windowed else meta.block_table
        assert block_table is not None
        k_scale, v_scale = _scales(layer, k_cache)
        if save_kv_cache and k is not None and v is not None:
            slots = batch.out_cache_loc
            if windowed:
                assert meta.window_slots is not None
                slots = meta.window_slots[: slots.shape[0]]
            ops.write_kv(
                k, v, k_cache, v_cache, slots, layout=KVLayout.BSHD, k_scale=k_scale, v_scale=v_scale
            )
        sinks = options.get("sinks")
        return _Call(
            q=q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim),
            k_cache=k_cache,
            v_cache=v_cache,
            k_scale=k_scale,
            v_scale=v_scale,
            block_table=block_table,
            meta=meta,
            rules=rules,
            sinks=sinks if isinstance(sinks, torch.Tensor) else None,
            out=q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim),
        )

    def _graph_state(self) -> GraphState:
        if self._graphs is None:
            raise UnsupportedError("a batch is to be captured, but init_cuda_graph_state was not called")
        return self._graphs


@dataclass(frozen=True)
class _Call:
    """One layer's attention over one batch: q `[T, Hq, D]`, out `[T, Hq, Dv]`, caches bshd."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    k_scale: float | None
    v_scale: float | None
    block_table: torch.Tensor
    meta: HygonMetadata
    rules: LayerRules
    sinks: torch.Tensor | None
    out: torch.Tensor


def _scales(layer: RadixAttention, cache: torch.Tensor) -> tuple[float | None, float | None]:
    """A layer's fp8 scales, None for an unquantised cache or a layer without any."""
    if cache.itemsize > 1 or layer.k_scale is None or layer.v_scale is None:
        return None, None
    return float(layer.k_scale_float), float(layer.v_scale_float)
