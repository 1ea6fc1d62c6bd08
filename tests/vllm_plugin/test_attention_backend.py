"""The backend class against vLLM's own cache allocation, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout

from hygon_backend import reference
from hygon_backend.errors import UnsupportedError
from hygon_backend.vllm_plugin.attention import HygonAttentionBackend, HygonAttentionImpl
from hygon_backend.vllm_plugin.metadata import HygonMetadata, HygonMetadataBuilder
from hygon_backend.vllm_plugin.registration import BACKEND_PATH, register

BLOCKS, BLOCK_SIZE, KV_HEADS, HEADS, HEAD_SIZE = 12, 8, 2, 6, 16


SCALE = 0.4
"""Not the default of the operators, 1 / sqrt(HEAD_SIZE), which would hide a scale that is not passed on."""


def make_impl(**options: object) -> HygonAttentionImpl:
    """One layer's attention with six query heads on two KV heads."""
    return HygonAttentionImpl(HEADS, HEAD_SIZE, SCALE, KV_HEADS, **options)


def allocate(layout: KVCacheLayout, dtype: torch.dtype, layers: int = 3) -> torch.Tensor:
    """The middle layer's `[B, H, N, C]` cache view, strided as vLLM lays out `layers` layers."""
    logical = (layers, BLOCKS, 2, BLOCK_SIZE, KV_HEADS * HEAD_SIZE)
    order = layout.stride_order
    storage = torch.zeros([logical[axis] for axis in order], dtype=dtype)
    return storage.permute([order.index(axis) for axis in range(5)])[1]


def run_batch(impl: HygonAttentionImpl, cache: torch.Tensor, layer: object) -> tuple[torch.Tensor, ...]:
    """Two decodes and two prefills over one cache; returns output and what the reference needs."""
    torch.manual_seed(3)
    seq_lens = torch.tensor([9, 17, 12, 5], dtype=torch.int32)
    query_lens = [1, 1, 7, 5]
    table = torch.randperm(BLOCKS)[: 4 * 3].reshape(4, 3).int()
    qkv = torch.randn(14, (HEADS + 2 * KV_HEADS) * HEAD_SIZE)  # packed, so that q, k and v are strided
    query = qkv[:, : HEADS * HEAD_SIZE].view(14, HEADS, HEAD_SIZE)
    prefix = torch.randn(2, int(seq_lens.sum()), KV_HEADS, HEAD_SIZE)
    slots = torch.cat(
        [table[row, torch.arange(n) // BLOCK_SIZE] * BLOCK_SIZE + torch.arange(n) % BLOCK_SIZE
         for row, n in enumerate(seq_lens.tolist())]
    ).long()  # fmt: skip
    padded = torch.cat([prefix, torch.full((2, 3, KV_HEADS, HEAD_SIZE), float("nan"))], dim=1)
    impl.do_kv_cache_update(layer, padded[0], padded[1], cache, slots)
    offsets = torch.tensor([0, *query_lens]).cumsum(0).int()
    metadata = HygonMetadata(14, 2, 2, table, seq_lens, offsets[2:] - 2)
    output = torch.full((16, HEADS, HEAD_SIZE), 7.0)  # two rows of padding
    impl.forward(layer, query, prefix[0], prefix[1], cache, metadata, output)
    return output, query, table, offsets, seq_lens, prefix


@pytest.mark.parametrize("layout", list(KVCacheLayout), ids=lambda layout: layout.name)
def test_every_vllm_layout_gives_the_reference_output(layout: KVCacheLayout) -> None:
    impl = make_impl()
    cache = allocate(layout, torch.float32)
    output, query, table, offsets, seq_lens, _ = run_batch(impl, cache, None)
    k_cache, v_cache = impl._split_cache(cache)
    assert k_cache.shape == (BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_SIZE)
    assert k_cache.data_ptr() != v_cache.data_ptr()
    expected, _ = reference.prefix_prefill(query, k_cache, v_cache, table, offsets, seq_lens, scale=SCALE)
    assert (output[:14].double() - expected).abs().max() < 1e-5
    assert (output[14:] == 7.0).all(), "padding rows are not ours to write"


@pytest.mark.parametrize("name", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_fp8_cache_honours_the_layers_scales(name: str) -> None:
    impl = make_impl(kv_cache_dtype=name)
    layer = SimpleNamespace(_k_scale_float=0.25, _v_scale_float=0.5)
    cache = allocate(KVCacheLayout.LHBNC, torch.uint8)
    output, query, table, offsets, seq_lens, prefix = run_batch(impl, cache, layer)
    k_cache, v_cache = impl._split_cache(cache)
    dtype = torch.float8_e5m2 if name == "fp8_e5m2" else torch.float8_e4m3fn
    assert k_cache.dtype == dtype
    for stored, given, scale in ((k_cache, prefix[0], 0.25), (v_cache, prefix[1], 0.5)):
        want = reference.quantise_fp8(given[0], dtype, scale)
        assert torch.equal(stored[table[0, 0], 0].view(torch.uint8), want.view(torch.uint8))
    expected, _ = reference.prefix_prefill(
        query, k_cache, v_cache, table, offsets, seq_lens, scale=SCALE, k_scale=0.25, v_scale=0.5
    )
    assert (output[:14].double() - expected).abs().max() < 1e-5


def test_modifiers_reach_the_operator() -> None:
    sinks = torch.randn(HEADS)
    slopes = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]
    impl = make_impl(alibi_slopes=slopes, sliding_window=6, logits_soft_cap=3.0, sinks=sinks)
    cache = allocate(KVCacheLayout.LHBNC, torch.float32)
    output, query, table, offsets, seq_lens, _ = run_batch(impl, cache, None)
    k_cache, v_cache = impl._split_cache(cache)
    expected, _ = reference.prefix_prefill(
        query, k_cache, v_cache, table, offsets, seq_lens,
        scale=SCALE, window=6, softcap=3.0, sinks=sinks, alibi_slopes=torch.tensor(slopes),
    )  # fmt: skip
    assert (output[:14].double() - expected).abs().max() < 1e-5


def test_profiling_run_writes_zeros() -> None:
    output = torch.full((4, HEADS, HEAD_SIZE), 3.0)
    query = torch.randn(4, HEADS, HEAD_SIZE)
    make_impl().forward(None, query, query, query, torch.tensor([]), None, output)
    assert (output == 0).all()


def test_output_quantisation_and_encoders_are_refused() -> None:
    query = torch.zeros(1, HEADS, HEAD_SIZE)
    with pytest.raises(UnsupportedError, match="HYGON_ATTN does not quantise its output"):
        make_impl().forward(None, query, query, query, query, None, query, output_scale=torch.ones(1))
    with pytest.raises(UnsupportedError, match="attention type is encoder_only, but HYGON_ATTN supports"):
        make_impl(attn_type=AttentionType.ENCODER_ONLY)


def test_spec_asks_for_separate_k_and_v_pools() -> None:
    spec = FullAttentionSpec(block_size=64, num_kv_heads=3, head_size=64, dtype=torch.float32)
    ours = HygonAttentionBackend.customize_spec(spec)
    assert ours.num_heads == 2
    assert ours.state_content_size_bytes == 3 * 64 * 4
    assert ours.page_size_bytes == spec.page_size_bytes
    assert HygonAttentionBackend.customize_spec(ours) is ours
    with pytest.raises(UnsupportedError, match="head_size_v is 32, but HYGON_ATTN under vLLM needs it equal"):
        HygonAttentionBackend.customize_spec(
            FullAttentionSpec(
                block_size=64, num_kv_heads=3, head_size=64, head_size_v=32, dtype=torch.float32
            )
        )


def test_preferred_layout_and_block_size() -> None:
    assert HygonAttentionBackend.supported_kv_cache_layouts()[0] is KVCacheLayout.LHBNC
    assert set(HygonAttentionBackend.supported_kv_cache_layouts()) == set(KVCacheLayout)
    assert HygonAttentionBackend.get_preferred_block_size(16) == 64
    for size in (1, 16, 24, 64, 256):
        assert HygonAttentionBackend.supports_block_size(size)


def test_registration_is_idempotent_and_resolves() -> None:
    register()
    register()
    assert AttentionBackendEnum["HYGON_ATTN"].get_path() == BACKEND_PATH
    assert AttentionBackendEnum["HYGON_ATTN"].get_class() is HygonAttentionBackend


def test_metadata_splits_the_batch_and_refuses_what_is_not_causal() -> None:
    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32)
    builder = HygonMetadataBuilder(spec, ["layer"], SimpleNamespace(), torch.device("cpu"))

    def common(query_lens: list[int], causal: bool = True) -> CommonAttentionMetadata:
        offsets = torch.tensor([0, *query_lens]).cumsum(0).int()
        rows = len(query_lens)
        return CommonAttentionMetadata(
            query_start_loc=offsets, query_start_loc_cpu=offsets,
            seq_lens=torch.full((rows,), 30, dtype=torch.int32), num_reqs=rows,
            num_actual_tokens=sum(query_lens), max_query_len=max(query_lens), max_seq_len=30,
            block_table_tensor=torch.zeros(rows, 2, dtype=torch.int32),
            slot_mapping=torch.zeros(sum(query_lens), dtype=torch.int64), causal=causal,
        )  # fmt: skip

    for query_lens, decodes, offsets in [
        ([1, 1, 1], 3, [0]),
        ([5, 7], 0, [0, 5, 12]),
        ([1, 1, 4, 6], 2, [0, 4, 10]),
        ([1, 0, 0], 0, [0, 1, 1, 1]),  # padded: a decode without a row must not shift the others
    ]:
        metadata = builder.build(0, common(query_lens))
        assert (metadata.num_decodes, metadata.num_prefills) == (decodes, len(query_lens) - decodes)
        assert metadata.prefill_cu_seqlens_q.tolist() == offsets
    with pytest.raises(UnsupportedError, match="non-causal attention, which HYGON_ATTN does not support"):
        builder.build(0, common([3], causal=False))
