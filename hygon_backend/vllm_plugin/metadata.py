"""Per-batch attention metadata: vLLM's common form, split into decodes and prefills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from vllm.config import VllmConfig
from vllm.v1.attention.backend import (
    AttentionCGSupport,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from vllm.v1.attention.backends.utils import split_decodes_and_prefills
from vllm.v1.kv_cache_interface import KVCacheSpec

from hygon_backend.errors import UnsupportedError
from hygon_backend.vllm_plugin.registration import BACKEND_NAME


@dataclass
class HygonMetadata(AttentionMetadata):
    """One batch: requests with one new token first, then the rest.

    `block_table` is `[num_reqs, max_blocks]` int32, `seq_lens` `[num_reqs]` int32 keys per request
    with the new tokens, `prefill_cu_seqlens_q` `[num_prefills + 1]` int32 offsets relative to the
    first prefill token.
    """

    num_actual_tokens: int
    num_decodes: int
    num_prefills: int
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    prefill_cu_seqlens_q: torch.Tensor


class HygonMetadataBuilder(AttentionMetadataBuilder[HygonMetadata]):
    """Builds `HygonMetadata` once per step; all layers of a cache group share it."""

    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.NEVER
    # One-token requests are moved to the front of the batch.
    reorder_batch_threshold: int | None = 1

    # Only forwards, but vLLM declares its constructor abstract.
    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> HygonMetadata:
        """Splits the batch; a request whose last prompt chunk is one token counts as a decode.

        Raises:
            UnsupportedError: the batch is not causal; some models decide that per batch.
        """
        common = common_attn_metadata
        if common.causal is not True:
            raise UnsupportedError(
                f"the model asks for non-causal attention, which {BACKEND_NAME} does not support"
            )
        num_decodes, num_prefills, num_decode_tokens, _ = split_decodes_and_prefills(
            common, decode_threshold=1
        )
        if num_decode_tokens != num_decodes:
            # A padding request without tokens counts as a decode, but has no row in the query.
            num_decodes, num_prefills, num_decode_tokens = 0, common.num_reqs, 0
        return HygonMetadata(
            num_actual_tokens=common.num_actual_tokens,
            num_decodes=num_decodes,
            num_prefills=num_prefills,
            block_table=common.block_table_tensor,
            seq_lens=common.seq_lens,
            prefill_cu_seqlens_q=common.query_start_loc[num_decodes:] - num_decode_tokens,
        )
