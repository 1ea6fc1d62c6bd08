"""Memory layouts of a paged KV cache: shapes, strides, views, conversion and offset formulas.

A cache is a pool of `num_blocks` pages of `block_size` tokens. Four layouts are in use (source
document, section 1.3, and section 1.2 for the packed form):

| layout     | key cache                       | value cache                 | who uses it          |
|------------|---------------------------------|-----------------------------|----------------------|
| `bshd`     | `[blocks, tokens, H, D]`        | same                        | SGLang pools, vLLM   |
| `bhsd`     | `[blocks, H, tokens, D]`        | same                        | vendor API, layout 0 |
| `bhsd_vt`  | `[blocks, H, tokens, D]`        | `[blocks, H, D, tokens]`    | vendor paged kernels |
| `x_packed` | `[blocks, H, D // x, tokens, x]`| `[blocks, H, D, tokens]`    | early vLLM kernels   |

with `x = 16 / element_size`, the elements of one 16-byte load. All functions here work on views:
no data moves except in `convert`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import torch

from hygon_backend.errors import InvalidArgumentError, reject

Part = Literal["key", "value"]

PACK_BYTES = 16
"""Width of one vector load in bytes; the `x_packed` key layout interleaves in units of it."""

MAX_BLOCK_SIZE = 256
"""Largest page size the operators accept, in tokens."""


class KVLayout(str, Enum):
    """Order of the axes of the key and value caches; see the table of this module."""

    BSHD = "bshd"
    BHSD = "bhsd"
    BHSD_VT = "bhsd_vt"
    X_PACKED = "x_packed"

    def __str__(self) -> str:
        return self.value


_VENDOR_CODES = {0: KVLayout.BHSD, 1: KVLayout.BSHD, 2: KVLayout.BSHD}
"""Integers of the vendor API. Its `paged_attention` takes 2 for what the other entry points call 1:
its host code then swaps the block-size and head axes, which is exactly the bshd shape."""


def parse_layout(layout: KVLayout | str | int) -> KVLayout:
    """Returns the layout named by a `KVLayout`, its string value or a vendor integer (0, 1, 2).

    Raises:
        InvalidArgumentError: the name or number is unknown.
    """
    if isinstance(layout, int) and not isinstance(layout, bool) and layout in _VENDOR_CODES:
        return _VENDOR_CODES[layout]
    try:
        return KVLayout(layout)
    except ValueError:
        names = ", ".join(repr(str(item)) for item in KVLayout)
        raise reject("layout", repr(layout), f"one of {names}, or a vendor code 0, 1 or 2") from None


def pack_width(dtype: torch.dtype) -> int:
    """Elements of `dtype` in one 16-byte load: the `x` of the packed layout."""
    return PACK_BYTES // dtype.itemsize


@dataclass(frozen=True)
class CacheGeometry:
    """Sizes of a paged cache; `head_size_v` may differ from `head_size`."""

    num_blocks: int
    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int

    def shape(self, layout: KVLayout, part: Part, dtype: torch.dtype) -> tuple[int, ...]:
        """Shape of the key or value cache in `layout`.

        Raises:
            InvalidArgumentError: `x_packed` with a head size that is no multiple of `x`.
        """
        nb, bs, heads = self.num_blocks, self.block_size, self.num_kv_heads
        dim = self.head_size if part == "key" else self.head_size_v
        if layout is KVLayout.BSHD:
            return (nb, bs, heads, dim)
        if part == "value" and layout in (KVLayout.BHSD_VT, KVLayout.X_PACKED):
            return (nb, heads, dim, bs)
        if layout is KVLayout.X_PACKED:
            x = pack_width(dtype)
            if dim % x:
                raise reject("head_size", dim, f"a multiple of {x} for layout 'x_packed' with {dtype}")
            return (nb, heads, dim // x, bs, x)
        return (nb, heads, bs, dim)

    def empty(
        self, layout: KVLayout | str | int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Allocates an uninitialised, contiguous (key cache, value cache) pair."""
        parsed = parse_layout(layout)
        key = torch.empty(self.shape(parsed, "key", dtype), dtype=dtype, device=device)
        value = torch.empty(self.shape(parsed, "value", dtype), dtype=dtype, device=device)
        return key, value


def geometry(k_cache: torch.Tensor, v_cache: torch.Tensor, layout: KVLayout) -> CacheGeometry:
    """Reads the sizes off a key/value cache pair and checks that the two agree.

    Raises:
        InvalidArgumentError: wrong number of axes, keys packed otherwise than by 16 bytes, a page
            size outside 1..256, or caches that disagree in blocks, page size or heads.
    """
    key_axes = 5 if layout is KVLayout.X_PACKED else 4
    for name, cache, axes in (("k_cache", k_cache, key_axes), ("v_cache", v_cache, 4)):
        if cache.dim() != axes:
            raise reject(name, f"{cache.dim()}-dimensional", f"{axes}-dimensional in layout '{layout}'")
    if layout is KVLayout.X_PACKED and k_cache.shape[4] != pack_width(k_cache.dtype):
        expected = (
            f"{pack_width(k_cache.dtype)}, the elements of {k_cache.dtype} in 16 bytes (layout '{layout}')"
        )
        raise reject("the last axis of k_cache", k_cache.shape[4], expected)
    key, value = _sizes(k_cache, layout, "key"), _sizes(v_cache, layout, "value")
    for name, a, b in zip(("num_blocks", "block_size", "num_kv_heads"), key, value, strict=False):
        if a != b:
            raise InvalidArgumentError(
                f"v_cache has {name} {b}, but k_cache has {a} (layout '{layout}', k_cache shape "
                f"{tuple(k_cache.shape)}, v_cache shape {tuple(v_cache.shape)})"
            )
    if not 1 <= key[1] <= MAX_BLOCK_SIZE:
        raise reject("block_size", key[1], f"1 to {MAX_BLOCK_SIZE} tokens (k_cache shape, layout '{layout}')")
    return CacheGeometry(key[0], key[1], key[2], key[3], value[3])


def _sizes(cache: torch.Tensor, layout: KVLayout, part: Part) -> tuple[int, int, int, int]:
    """(num_blocks, block_size, num_kv_heads, head_size) of one cache."""
    view = token_major_view(cache, layout, part)
    head_size = view.shape[3] * (view.shape[4] if view.dim() == 5 else 1)
    return view.shape[0], view.shape[1], view.shape[2], head_size


def token_major_view(cache: torch.Tensor, layout: KVLayout, part: Part) -> torch.Tensor:
    """Views a cache as `[num_blocks, block_size, num_kv_heads, head_size]`, whatever its layout.

    The packed key cache cannot be viewed with its head axis merged; it comes back with two
    trailing axes, `[..., head_size // x, x]`, which the caller flattens once it has copied.
    """
    if layout is KVLayout.BSHD:
        return cache
    if part == "value" and layout in (KVLayout.BHSD_VT, KVLayout.X_PACKED):
        return cache.permute(0, 3, 1, 2)
    if layout is KVLayout.X_PACKED:
        return cache.permute(0, 3, 1, 2, 4)
    return cache.permute(0, 2, 1, 3)


def element_offset(
    layout: KVLayout | str | int,
    part: Part,
    *,
    block: int,
    token: int,
    head: int,
    dim: int,
    sizes: CacheGeometry,
    dtype: torch.dtype,
) -> int:
    """Offset, in elements, of one scalar in a contiguous cache (source document, section 1.3).

    Multiply by the element size for bytes. Python integers do not overflow; a kernel must use
    64-bit arithmetic for the same sum, since `block * block_stride` passes 2^31 in real pools.
    """
    parsed = parse_layout(layout)
    heads, bs = sizes.num_kv_heads, sizes.block_size
    head_size = sizes.head_size if part == "key" else sizes.head_size_v
    page = block * heads * bs * head_size
    if parsed is KVLayout.BSHD:
        return page + token * heads * head_size + head * head_size + dim
    if part == "value" and parsed in (KVLayout.BHSD_VT, KVLayout.X_PACKED):
        return page + head * head_size * bs + dim * bs + token
    if parsed is KVLayout.X_PACKED:
        x = pack_width(dtype)
        return page + head * head_size * bs + (dim // x) * bs * x + token * x + dim % x
    return page + head * bs * head_size + token * head_size + dim


def convert(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    source: KVLayout | str | int,
    target: KVLayout | str | int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Copies a cache pair into freshly allocated caches of another layout.

    Meant for tests and one-off migration: no operator of this project converts on the hot path.
    """
    src, dst = parse_layout(source), parse_layout(target)
    sizes = geometry(k_cache, v_cache, src)
    new_k, new_v = sizes.empty(dst, k_cache.dtype, k_cache.device)
    pairs: tuple[tuple[torch.Tensor, torch.Tensor, Part], ...] = (
        (k_cache, new_k, "key"),
        (v_cache, new_v, "value"),
    )
    for old, new, part in pairs:
        data = token_major_view(old, src, part).flatten(3)
        view = token_major_view(new, dst, part)
        view.copy_(data.reshape(view.shape))
    return new_k, new_v
