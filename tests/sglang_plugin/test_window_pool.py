"""Models that keep the keys of sliding-window layers in a smaller pool of their own."""

from __future__ import annotations

import pytest
import torch
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from hygon_backend.errors import UnsupportedError
from hygon_backend.sglang_plugin.attention import HygonAttentionBackend
from tests.sglang_plugin.scene import (
    HEAD_SIZE,
    KV_HEADS,
    POOL_TOKENS,
    Scene,
    error,
    make_layer,
    make_runner,
)

WINDOW = 20
WINDOW_LAYER, FULL_LAYER = 0, 1


def make_pair(page_size: int, **options: object) -> SWAKVPool:
    """SGLang's pair of pools: layer 0 slides, layer 1 sees everything."""
    return SWAKVPool(
        size=POOL_TOKENS, size_swa=POOL_TOKENS // 2, page_size=page_size, dtype=torch.float32,
        head_num=KV_HEADS, head_dim=HEAD_SIZE, swa_attention_layer_ids=[WINDOW_LAYER],
        full_attention_layer_ids=[FULL_LAYER], device="cpu", **options,
    )  # fmt: skip


def move_into(pair: SWAKVPool, scene: Scene) -> None:
    """Puts a scene's window in the small pool, on pages of other numbers, and its keys in the large one."""
    page = scene.page_size
    mapping = torch.zeros(POOL_TOKENS + page + 1, dtype=torch.int64)
    free = torch.randperm(POOL_TOKENS // 2 // page) + 1
    keys = scene.pool.get_kv_buffer(0)
    for layer in (WINDOW_LAYER, FULL_LAYER):
        for buffer in pair.get_kv_buffer(layer):
            buffer.fill_(float("nan"))
    for mine, theirs in zip(pair.get_kv_buffer(FULL_LAYER), keys, strict=True):
        mine.copy_(theirs)
    for slots, prefix in zip(scene.slots, scene.prefix, strict=True):
        # What left the window before this forward has been given back: it maps to the dummy page.
        first = max(prefix - WINDOW, 0) // page * page
        for start in range(first, len(slots), page):
            part = slots[start : start + page]
            mine, free = free[0] * page, free[1:]
            mapping[part] = mine + torch.arange(len(part))
        cached = slots[first:prefix]
        for small, large in zip(pair.get_kv_buffer(WINDOW_LAYER), keys, strict=True):
            small[mapping[cached]] = large[cached]
    pair.register_mapping(mapping)


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("captured", [False, True])
def test_both_layers_read_their_own_pool(page_size: int, captured: bool) -> None:
    scene = Scene(prefix=[90, 5, 33], extend=[1, 1, 1], page_size=page_size)
    pair = make_pair(page_size)
    move_into(pair, scene)
    runner = make_runner(pair, page_size, req_to_token_pool=scene.runner.req_to_token_pool)
    backend = HygonAttentionBackend(runner)
    batch = scene.batch(ForwardMode.DECODE)
    if captured:
        backend.init_cuda_graph_state(8, 8)
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
        backend.init_forward_metadata_in_graph(batch)
    else:
        backend.init_forward_metadata(batch)
    windowed, full = make_layer(sliding_window_size=WINDOW - 1), make_layer()
    full.layer_id = FULL_LAYER
    outs = [
        backend.forward(scene.q, scene.k, scene.v, layer, batch).view(-1, 6, HEAD_SIZE)
        for layer in (windowed, full)
    ]
    scene.run(batch)  # puts the new tokens in the scene's own pool, which the reference reads
    assert error(outs[0], scene.expected(window=WINDOW)) < 1e-5
    assert error(outs[1], scene.expected()) < 1e-5


def test_both_pools_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_USE_HND_KVCACHE", "1")
    with pytest.raises(UnsupportedError, match="SGLANG_USE_HND_KVCACHE asks for head-major pages"):
        HygonAttentionBackend(make_runner(make_pair(16), 16))
