"""The attention backend: vLLM's calls translated into our operators, nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from vllm.utils.torch_utils import get_dtype_size
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionLayer,
    AttentionType,
)
from vllm.v1.kv_cache_interface import KVCacheLayout

from hygon_backend import ops
from hygon_backend.errors import UnsupportedError
from hygon_backend.kv_layout import KVLayout
from hygon_backend.validation import MAX_HEAD_SIZE
from hygon_backend.vllm_plugin import support
from hygon_backend.vllm_plugin.metadata import HygonMetadata, HygonMetadataBuilder
from hygon_backend.vllm_plugin.registration import BACKEND_NAME

if TYPE_CHECKING:
    from vllm.config.cache import CacheDType
    from vllm.v1.attention.backend import MultipleOf
    from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheSpec

_FP8_DTYPES = {
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


class HygonAttentionBackend(AttentionBackend):
    """`HYGON_ATTN`: separate K and V pools of bshd pages."""

    supported_dtypes: ClassVar[list[torch.dtype]] = support.DTYPES
    supported_kv_cache_dtypes: ClassVar[list[CacheDType]] = support.KV_CACHE_DTYPES
    forward_includes_kv_cache_update: bool = False

    @staticmethod
    def get_name() -> str:
        """Name of the registry entry."""
        return BACKEND_NAME

    @staticmethod
    def get_impl_cls() -> type[HygonAttentionImpl]:
        """Class of a layer's attention."""
        return HygonAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[HygonMetadataBuilder]:
        """Class that builds the batch metadata."""
        return HygonMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(
        kv_cache_spec: KVCacheSpec | None = None,
    ) -> list[int | MultipleOf]:
        """Page sizes in tokens."""
        return list(support.BLOCK_SIZES)

    @classmethod
    def get_preferred_block_size(cls, default_block_size: int) -> int:
        """Page size when the user names none."""
        return support.PREFERRED_BLOCK_SIZE

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Every size up to the limit: those without a kernel tile of their own are padded."""
        return head_size <= MAX_HEAD_SIZE

    @classmethod
    def supports_sink(cls) -> bool:
        """Attention sinks."""
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Sliding windows."""
        return True

    @classmethod
    def customize_spec(cls, spec: AttentionSpec) -> AttentionSpec:
        """Asks for K and V as two "heads" of `num_kv_heads * head_size` elements a token.

        With vLLM's LHBNC layout each layer then has a whole pool of K pages followed by one of V
        pages, every page `[block_size, num_kv_heads, head_size]`.
        """
        if spec.state_content_bytes is not None:
            return spec
        if spec.head_size_v != spec.head_size:
            raise UnsupportedError(
                f"head_size_v is {spec.head_size_v}, but {BACKEND_NAME} under vLLM needs it equal to "
                f"head_size, {spec.head_size}"
            )
        token_bytes = spec.num_kv_heads * spec.head_size * get_dtype_size(spec.dtype)
        return replace(spec, num_head_slots=2, state_content_bytes=token_bytes)

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        """All of vLLM's: the operators take strides. First choice keeps K and V pools apart."""
        return (KVCacheLayout.LHBNC, *(item for item in KVCacheLayout if item is not KVCacheLayout.LHBNC))


class HygonAttentionImpl(AttentionImpl[HygonMetadata]):
    """Attention of one layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: torch.Tensor | None = None,
    ) -> None:
        sentence = support.explain_attention_type(attn_type)
        if sentence is not None:
            raise UnsupportedError(sentence)
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.window = sliding_window
        self.softcap = logits_soft_cap
        self.sinks = sinks
        self.alibi_slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32)
        self.fp8_dtype = _FP8_DTYPES.get(kv_cache_dtype)

    def do_kv_cache_update(
        self,
        layer: AttentionLayer,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Writes the batch's new keys and values; `key` may be longer than `slot_mapping` (padding)."""
        k_cache, v_cache = self._split_cache(kv_cache)
        k_scale, v_scale = self._scales(layer)
        tokens = slot_mapping.shape[0]
        ops.write_kv(
            key[:tokens],
            value[:tokens],
            k_cache,
            v_cache,
            slot_mapping,
            layout=KVLayout.BSHD,
            k_scale=k_scale,
            v_scale=v_scale,
        )

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: HygonMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attends; `query` and `output` are `[num_tokens, num_heads, head_size]`, K and V are cached."""
        if output_scale is not None or output_block_scale is not None:
            raise UnsupportedError(f"{BACKEND_NAME} does not quantise its output")
        if attn_metadata is None:  # memory profiling: nothing is cached yet
            return output.fill_(0)
        k_cache, v_cache = self._split_cache(kv_cache)
        k_scale, v_scale = self._scales(layer)
        meta = attn_metadata
        decodes, tokens = meta.num_decodes, meta.num_actual_tokens
        if decodes:
            ops.paged_decode(
                query[:decodes],
                k_cache,
                v_cache,
                meta.block_table[:decodes],
                meta.seq_lens[:decodes],
                scale=self.scale,
                layout=KVLayout.BSHD,
                window=self.window,
                softcap=self.softcap,
                sinks=self.sinks,
                alibi_slopes=self.alibi_slopes,
                k_scale=k_scale,
                v_scale=v_scale,
                out=output[:decodes],
            )
        if meta.num_prefills:
            ops.prefix_prefill(
                query[decodes:tokens],
                k_cache,
                v_cache,
                meta.block_table[decodes:],
                meta.prefill_cu_seqlens_q,
                meta.seq_lens[decodes:],
                scale=self.scale,
                layout=KVLayout.BSHD,
                window=self.window,
                softcap=self.softcap,
                sinks=self.sinks,
                alibi_slopes=self.alibi_slopes,
                k_scale=k_scale,
                v_scale=v_scale,
                out=output[decodes:tokens],
            )
        return output

    def _split_cache(self, kv_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views vLLM's `[num_blocks, 2, block_size, Hkv * D]` as K and V, each bshd."""
        if self.fp8_dtype is not None:
            kv_cache = kv_cache.view(self.fp8_dtype)
        shape = (kv_cache.shape[0], kv_cache.shape[2], self.num_kv_heads, self.head_size)
        k_cache, v_cache = kv_cache.unbind(1)
        return k_cache.view(shape), v_cache.view(shape)

    def _scales(self, layer: AttentionLayer) -> tuple[float | None, float | None]:
        """fp8 scales of this layer, None for an unquantised cache."""
        if self.fp8_dtype is None:
            return None, None
        return layer._k_scale_float, layer._v_scale_float
