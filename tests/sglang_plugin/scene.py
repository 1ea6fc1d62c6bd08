"""A model runner without a model: SGLang's own pools and layers, with requests on scattered pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from hygon_backend import reference
from hygon_backend.sglang_plugin.attention import HygonAttentionBackend

KV_HEADS, HEADS, HEAD_SIZE = 2, 6, 16
SCALE = 0.4
"""Not the default of the operators, 1 / sqrt(HEAD_SIZE), which would hide a scale that is not passed on."""

MAX_CONTEXT, MAX_REQUESTS, POOL_TOKENS = 256, 16, 2048


def make_pool(page_size: int, dtype: torch.dtype = torch.float32, **options: Any) -> MHATokenToKVPool:  # noqa: ANN401
    """SGLang's pool of one layer."""
    sizes = {"head_num": KV_HEADS, "head_dim": HEAD_SIZE, "layer_num": 1, "size": POOL_TOKENS}
    return MHATokenToKVPool(
        **sizes
        | {"page_size": page_size, "dtype": dtype, "device": "cpu", "enable_memory_saver": False}
        | options
    )


def make_layer(**options: Any) -> RadixAttention:  # noqa: ANN401 (arguments of SGLang's layer)
    """One layer's attention with six query heads on two KV heads."""
    return RadixAttention(HEADS, HEAD_SIZE, SCALE, KV_HEADS, 0, **options)


def make_runner(pool: object, page_size: int, **changes: Any) -> SimpleNamespace:  # noqa: ANN401
    """What the backend looks at in a model runner."""
    plain = {
        "use_mla_backend": False,
        "model_config": SimpleNamespace(is_encoder_decoder=False, context_len=MAX_CONTEXT),
        "dtype": torch.float32,
        "kv_cache_dtype": torch.float32,
        "page_size": page_size,
        "kv_index_translator": None,
        "token_to_kv_pool": pool,
        "req_to_token_pool": ReqToTokenPool(MAX_REQUESTS, MAX_CONTEXT, "cpu", False),
        "is_draft_worker": False,
        "server_args": SimpleNamespace(speculative_num_draft_tokens=None),
    }
    return SimpleNamespace(**plain | changes)


@dataclass
class Scene:
    """Requests whose first `prefix` tokens are cached and whose next `extend` tokens are to be computed."""

    prefix: Sequence[int]
    extend: Sequence[int]
    page_size: int = 16
    dtype: torch.dtype = torch.float32
    draft_tokens: int | None = None
    layer_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.pool = make_pool(self.page_size, self.dtype)
        self.layer = make_layer(**self.layer_options)
        args = SimpleNamespace(speculative_num_draft_tokens=self.draft_tokens)
        self.runner = make_runner(self.pool, self.page_size, server_args=args)
        self.backend = HygonAttentionBackend(self.runner)
        self.totals = [a + b for a, b in zip(self.prefix, self.extend, strict=True)]
        self.requests = torch.randperm(MAX_REQUESTS)[: len(self.totals)]
        self._place_tokens()
        tokens = sum(self.extend)
        # Packed, so that q, k and v are strided, as models hand them over.
        qkv = torch.randn(tokens, (HEADS + 2 * KV_HEADS) * HEAD_SIZE)
        q, k, v = qkv.split([HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE], dim=1)
        self.q = q
        self.k, self.v = (x.view(tokens, KV_HEADS, HEAD_SIZE) for x in (k, v))

    def _place_tokens(self) -> None:
        """Gives every request pages in random order; other slots of its row are stale."""
        table = self.runner.req_to_token_pool.req_to_token
        pages = torch.randperm(POOL_TOKENS // self.page_size)
        table.copy_(torch.randint(0, POOL_TOKENS, table.shape))
        self.slots: list[torch.Tensor] = []
        for row, total in zip(self.requests, self.totals, strict=True):
            count = -(-total // self.page_size)
            mine, pages = pages[:count] + 1, pages[count:]  # page 0 is SGLang's dummy
            slots = (mine[:, None] * self.page_size + torch.arange(self.page_size)).flatten()[:total]
            table[row, :total] = slots.int()
            self.slots.append(slots)
        keys, values = self.pool.get_kv_buffer(0)
        for buffer in (keys, values):
            buffer.view(torch.uint8).fill_(255)  # NaN where nothing was ever written
        for slots, prefix in zip(self.slots, self.prefix, strict=True):
            for buffer in (keys, values):
                buffer[slots[:prefix]] = torch.randn(prefix, KV_HEADS, HEAD_SIZE).to(self.dtype)

    def batch(self, mode: ForwardMode, **changes: Any) -> SimpleNamespace:  # noqa: ANN401
        """The forward batch as SGLang describes it in a mode."""
        prefix, extend = torch.tensor(self.prefix), torch.tensor(self.extend)
        cached_only = mode.is_target_verify()
        lens = prefix if cached_only else prefix + extend
        new = [slots[start:] for slots, start in zip(self.slots, self.prefix, strict=True)]
        plain = {
            "forward_mode": mode,
            "batch_size": len(self.totals),
            "input_ids": torch.zeros(sum(self.extend), dtype=torch.int64),
            "req_pool_indices": self.requests,
            "seq_lens": lens,
            "seq_lens_cpu": lens.clone(),
            "out_cache_loc": torch.cat([torch.zeros(0, dtype=torch.int64), *new]),
            "extend_prefix_lens": prefix,
            "extend_seq_lens": extend,
            "extend_prefix_lens_cpu": list(self.prefix),
            "extend_seq_lens_cpu": list(self.extend),
            "spec_info": None,
        }
        return SimpleNamespace(**plain | changes)

    def run(self, batch: SimpleNamespace, **options: Any) -> torch.Tensor:  # noqa: ANN401
        """Prepares the batch as a graphless forward does and runs the layer."""
        self.backend.init_forward_metadata(batch)
        return self.forward(batch, **options)

    def forward(self, batch: SimpleNamespace, **options: Any) -> torch.Tensor:  # noqa: ANN401
        """Runs the layer on metadata that was prepared before: `[num_tokens, Hq, D]`."""
        out = self.backend.forward(self.q, self.k, self.v, self.layer, batch, **options)
        assert out.shape == (self.q.shape[0], HEADS * HEAD_SIZE)
        return out.view(-1, HEADS, HEAD_SIZE)

    def expected(self, mask: torch.Tensor | None = None, **rules: Any) -> torch.Tensor:  # noqa: ANN401
        """The float64 answer from what the pool holds now; `mask` is `[num_seqs, n, n]` over new tokens."""
        keys, values = self.pool.get_kv_buffer(0)
        outs = []
        for row, (slots, q) in enumerate(zip(self.slots, self.q.split(list(self.extend)), strict=True)):
            full = None
            if mask is not None:
                full = torch.cat([mask.new_ones(mask.shape[1], self.prefix[row]), mask[row]], dim=1)
            q = q.reshape(-1, HEADS, HEAD_SIZE).double()
            scales = {name: rules.get(name, 1.0) for name in ("k_scale", "v_scale")}
            plain = {name: value for name, value in rules.items() if name not in scales}
            out, _ = reference.attend(
                q,
                keys[slots].double() * scales["k_scale"],
                values[slots].double() * scales["v_scale"],
                **{"scale": SCALE} | plain,
                custom_mask=full,
            )
            outs.append(out)
        return torch.cat(outs)


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference."""
    return float((actual.double() - expected).abs().max())
