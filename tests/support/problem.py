"""Attention problems in dense form, with their exact and their low-precision answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cached_property

import torch

from hygon_backend import reference

Scale = float | torch.Tensor | None
Solver = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]
]
"""Turns one sequence's q, k, v and custom mask into its output and LSE."""


default_dtype: ContextVar[torch.dtype] = ContextVar("default_dtype", default=torch.float32)
"""Element type of problems that ask for none: one that the implementation under test has kernels for."""


@dataclass(frozen=True)
class Rules:
    """The score modifiers of a call; the names are those of the operators' arguments."""

    scale: float | None = None
    causal: bool = True
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    alibi_slopes: torch.Tensor | None = None

    def arguments(self) -> dict[str, object]:
        """The rules as keyword arguments."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Answer:
    """Output `[T, Hq, Dv]` and natural-log LSE `[T, Hq]` of a batch."""

    out: torch.Tensor
    lse: torch.Tensor


@dataclass(frozen=True)
class Problem:
    """A batch of sequences.

    `q` is `[T, Hq, D]`, packed; `k[s]` and `v[s]` are the `[Lk, Hkv, D]` and `[Lk, Hkv, Dv]` elements
    as a cache stores them, so for fp8 still to be multiplied by `k_scale` and `v_scale`.
    """

    q: torch.Tensor
    q_lens: list[int]
    k: list[torch.Tensor]
    v: list[torch.Tensor]
    rules: Rules
    k_scale: Scale = None
    v_scale: Scale = None
    q_scale: Scale = None
    masks: list[torch.Tensor] | None = None
    """Custom masks `[Lq, Lk]`, one a sequence."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the result: that of the queries, for fp8 ones of the cache, or bfloat16."""
        for tensor in (self.q, self.k[0]):
            if tensor.itemsize > 1:
                return tensor.dtype
        return torch.bfloat16

    @property
    def kv_lens(self) -> list[int]:
        """Number of keys of each sequence."""
        return [len(k) for k in self.k]

    @property
    def cu_seqlens_q(self) -> torch.Tensor:
        """Prefix sums of the query lengths."""
        return cu_seqlens(self.q_lens)

    @cached_property
    def exact(self) -> Answer:
        """The answer in float64 by `reference.attend`, which is tested on its own."""
        return self._each(
            lambda q, k, v, mask: reference.attend(
                q.double() * reference.per_head(self.q_scale, 1),
                k.double() * reference.per_head(self.k_scale, k.shape[1]),
                v.double() * reference.per_head(self.v_scale, v.shape[1]),
                **self.rules.arguments(),
                custom_mask=mask,
            )
        )

    @cached_property
    def low_precision(self) -> Answer:
        """The answer of a plain torch run in the query's dtype: the yardstick of rounding errors."""
        return self._each(
            lambda q, k, v, mask: naive_attention(
                dequantise(q, self.q_scale, self.dtype),
                dequantise(k, self.k_scale, self.dtype),
                dequantise(v, self.v_scale, self.dtype),
                self.rules,
                mask,
            )
        )

    def _each(self, solve: Solver) -> Answer:
        parts = self.q.split(self.q_lens)
        masks = self.masks or [None] * len(parts)
        results = [solve(*args) for args in zip(parts, self.k, self.v, masks, strict=True)]
        return Answer(*(torch.cat(column) for column in zip(*results, strict=True)))


def make_problem(
    q_lens: Sequence[int],
    kv_lens: Sequence[int],
    *,
    heads: tuple[int, int] = (4, 2),
    head_size: int = 64,
    head_size_v: int | None = None,
    dtype: torch.dtype | None = None,
    cache_dtype: torch.dtype | None = None,
    rules: Rules | None = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
    q_dtype: torch.dtype | None = None,
    q_scale: Scale = None,
    mask_density: float | None = None,
    sharpness: float = 1.0,
    seed: int = 0,
) -> Problem:
    """Draws a problem: keys and values N(0, 1), queries N(0, sharpness), of `default_dtype` at first.

    `q_dtype` stores queries in another type, fp8; `mask_density` gives each sequence a random custom mask.
    """
    dtype = dtype or default_dtype.get()
    generator = torch.Generator().manual_seed(seed)
    heads_q, heads_kv = heads
    stored = cache_dtype or dtype

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    masks = None
    if mask_density is not None:
        masks = [
            torch.rand(len_q, len_k, generator=generator) < mask_density
            for len_q, len_k in zip(q_lens, kv_lens, strict=True)
        ]
    return Problem(
        q=_store(draw(sum(q_lens), heads_q, head_size) * sharpness, q_scale, q_dtype or dtype, heads=1),
        q_lens=list(q_lens),
        k=[_store(draw(length, heads_kv, head_size), k_scale, stored) for length in kv_lens],
        v=[_store(draw(length, heads_kv, head_size_v or head_size), v_scale, stored) for length in kv_lens],
        rules=rules or Rules(),
        k_scale=k_scale,
        v_scale=v_scale,
        q_scale=q_scale,
        masks=masks,
    )


def _store(data: torch.Tensor, scale: Scale, dtype: torch.dtype, *, heads: int | None = None) -> torch.Tensor:
    scaled = (data / reference.per_head(scale, heads or data.shape[1])).float()
    if dtype.itemsize == 1:  # torch makes NaN of what fp8 cannot hold
        scaled = scaled.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return scaled.to(dtype)


def dequantise(stored: torch.Tensor, scale: Scale, dtype: torch.dtype) -> torch.Tensor:
    """Stored elements times their scale, rounded to `dtype`."""
    heads = 1 if isinstance(scale, torch.Tensor) and scale.numel() == 1 else stored.shape[1]
    return (stored.double() * reference.per_head(scale, heads)).to(dtype)


def cu_seqlens(lengths: Sequence[int]) -> torch.Tensor:
    """Prefix sums from 0, as int32."""
    return torch.tensor([0, *lengths]).cumsum(0).int()


def visible(len_q: int, len_k: int, rules: Rules, custom: torch.Tensor | None = None) -> torch.Tensor:
    """Mask `[Lq, Lk]`, True where a query sees a key, built entry by entry from the document's rule."""
    shift = len_k - len_q
    key, row = torch.arange(len_k), torch.arange(len_q)[:, None]
    mask = torch.ones(len_q, len_k, dtype=torch.bool)
    if custom is not None:
        mask[:, max(shift, 0) :] = custom[:, max(shift, 0) :].bool()
    elif rules.causal:
        mask = key <= row + shift
    if rules.window is not None:
        mask = mask & (row + shift - key < rules.window)
    return mask


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rules: Rules, custom: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one sequence with every intermediate rounded to the dtype of the operands.

    The LSE alone is computed in float32 from the rounded operands: it is float32 in every operator.
    """
    len_q, heads_q, head_size = q.shape
    len_k, heads_kv, _ = k.shape
    group = heads_q // heads_kv
    factor = rules.scale if rules.scale is not None else 1 / math.sqrt(head_size)
    hidden = ~visible(len_q, len_k, rules, custom)
    distance = torch.arange(len_k) - (torch.arange(len_q)[:, None] + len_k - len_q)
    keys, values = (x.repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))
    queries = q.transpose(0, 1)

    def logits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        scores = a @ b.transpose(1, 2) * factor
        if rules.softcap:
            scores = rules.softcap * torch.tanh(scores / rules.softcap)
        if rules.alibi_slopes is not None:
            scores = scores + rules.alibi_slopes[:, None, None].to(scores.dtype) * distance
        scores = scores.masked_fill(hidden, -math.inf)
        if rules.sinks is not None:
            sink = rules.sinks[:, None, None].to(scores.dtype).expand(-1, len_q, 1)
            scores = torch.cat([scores, sink], dim=2)
        return scores

    weights = torch.softmax(logits(queries, keys), dim=2)[..., :len_k]
    weights = weights.masked_fill(hidden, 0)
    lse = torch.logsumexp(logits(queries.float(), keys.float()), dim=2)
    return (weights @ values).transpose(0, 1), lse.transpose(0, 1)
