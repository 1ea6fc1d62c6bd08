"""Argument checks shared by the operators.

Shapes, dtypes and devices are always checked: that reads no tensor data. Values (page ids, lengths,
offsets) are read only under `validate=True`, since on a card that means waiting for the device.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import torch

from hygon_backend.calls.scale import FP8_DTYPES, Scale
from hygon_backend.errors import InvalidArgumentError, reject
from hygon_backend.kv_layout import CacheGeometry, KVLayout, geometry

_SMALLEST = torch.finfo(torch.float32).tiny
_LARGEST = 1e38
"""Largest magnitude of a number that kernels take in float32, with room for the factor log2(e)."""

QUERY_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
CACHE_DTYPES = (*QUERY_DTYPES, *FP8_DTYPES)
INDEX_DTYPES = (torch.int32, torch.int64)
MASK_DTYPES = (torch.bool, torch.uint8)

MAX_HEAD_SIZE = 256
"""Largest head size; sizes the kernels have no tile for are padded to the next one."""

MAX_SEQ_LEN = 1 << 30
"""Keys of the longest sequence: positions have 31 bits, and a kernel steps past the last one."""

PARTITION_VARIABLE = "PA_PARTITION_SIZE"
"""Environment variable that overrides the partition size of every call, as in the vendor's code."""


def check_tensor(
    name: str,
    tensor: object,
    shape: tuple[int | None, ...],
    dtypes: tuple[torch.dtype, ...],
    device: torch.device | None = None,
) -> None:
    """Checks that an argument is a dense tensor of the given shape (None: any size), dtype and device."""
    if not isinstance(tensor, torch.Tensor):
        raise reject(name, type(tensor).__name__, "a tensor")
    if tensor.layout is not torch.strided:
        raise reject(f"the layout of {name}", tensor.layout, "torch.strided")
    if tensor.is_neg():
        raise reject(name, "a view that stands for its negative", "resolved: torch.resolve_neg(tensor)")
    expected = "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
    fits = tensor.dim() == len(shape) and all(
        want is None or want == have for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        raise reject(f"the shape of {name}", list(tensor.shape), expected)
    if tensor.dtype not in dtypes:
        raise reject(f"the dtype of {name}", tensor.dtype, "one of " + ", ".join(str(d) for d in dtypes))
    if device is not None and tensor.device != device:
        raise reject(f"the device of {name}", tensor.device, f"{device}, like the other tensors")


def check_cache(
    k_cache: torch.Tensor, v_cache: torch.Tensor, layout: KVLayout, device: torch.device | None = None
) -> CacheGeometry:
    """Checks a cache pair and returns its sizes; both on `device`, or on one device when None."""
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if not isinstance(cache, torch.Tensor):
            raise reject(name, type(cache).__name__, "a tensor")
        check_tensor(name, cache, (None,) * cache.dim(), CACHE_DTYPES, device)
        device = cache.device
    if k_cache.dtype != v_cache.dtype:
        raise reject("the dtype of v_cache", v_cache.dtype, f"{k_cache.dtype}, like k_cache")
    sizes = geometry(k_cache, v_cache, layout)
    for name, size in (("head_size", sizes.head_size), ("head_size_v", sizes.head_size_v)):
        if not 1 <= size <= MAX_HEAD_SIZE:
            raise reject(name, size, f"1 to {MAX_HEAD_SIZE}")
    return sizes


def check_heads(num_heads: int, num_kv_heads: int) -> None:
    """Checks that query heads divide evenly among key/value heads."""
    if num_kv_heads == 0 or num_heads % num_kv_heads:
        raise reject("the number of query heads", num_heads, f"a multiple of the {num_kv_heads} KV heads")


def check_scale(name: str, scale: Scale, num_kv_heads: int, device: torch.device) -> None:
    """Checks an fp8 scale: None, a positive finite number, or a tensor of one or `num_kv_heads`."""
    if scale is None:
        return
    if isinstance(scale, torch.Tensor):
        if scale.layout is not torch.strided:
            raise reject(f"the layout of {name}", scale.layout, "torch.strided")
        if scale.numel() not in (1, num_kv_heads) or scale.dim() > 1:
            allowed = "[] or [1]" if num_kv_heads == 1 else f"[], [1] or [{num_kv_heads}]"
            raise reject(f"the shape of {name}", list(scale.shape), allowed)
        if not scale.is_floating_point():
            raise reject(f"the dtype of {name}", scale.dtype, "a floating-point type")
        if scale.device != device:
            raise reject(f"the device of {name}", scale.device, f"{device}, like the other tensors")
        return
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise reject(name, repr(scale), "None, a number or a tensor")
    if not (math.isfinite(scale) and scale > 0):
        raise reject(name, scale, "a finite number above 0")
    if not _SMALLEST <= scale <= _LARGEST:
        raise reject(name, scale, f"{_SMALLEST:.3g} to {_LARGEST:.3g}")


def check_per_head(name: str, tensor: torch.Tensor | None, num_heads: int, device: torch.device) -> None:
    """Checks an optional `[num_heads]` float tensor (sinks, ALiBi slopes)."""
    if tensor is not None:
        check_tensor(name, tensor, (num_heads,), QUERY_DTYPES, device)


def softmax_scale(scale: float | None, head_size: int) -> float:
    """Returns the factor of the dot product, `1 / sqrt(head_size)` when None."""
    if scale is None:
        return 1.0 / math.sqrt(head_size)
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
        raise reject("scale", repr(scale), "a finite number or None")
    if abs(scale) > _LARGEST:  # the arithmetic is in float32
        raise reject("scale", scale, f"at most {_LARGEST:.3g} in magnitude")
    return float(scale)


def soft_cap(softcap: float | None) -> float | None:
    """Returns the logit cap, None for none (None and 0 both mean that)."""
    if softcap is None:
        return None
    if isinstance(softcap, bool) or not isinstance(softcap, int | float):
        raise reject("softcap", repr(softcap), "a number or None")
    if not (math.isfinite(softcap) and softcap >= 0):
        raise reject("softcap", softcap, "a finite number, 0 (off) or above")
    # Kernels take it in float32, where anything smaller would be 0 and so mean "off".
    if softcap and not _SMALLEST <= softcap <= _LARGEST:
        raise reject("softcap", softcap, f"0 (off), or {_SMALLEST:.3g} to {_LARGEST:.3g}")
    return float(softcap) or None


def causal_mask(causal: bool) -> bool:
    """Returns whether the causal mask applies."""
    if not isinstance(causal, bool):
        raise reject("causal", repr(causal), "True or False")
    return causal


def window_size(window: int | None, causal: bool) -> int | None:
    """Returns the number of visible keys, None for all.

    Other code counts the keys to the left of the own one (`window_left`); that is `window - 1`.
    """
    if window is None:
        return None
    if isinstance(window, bool) or not isinstance(window, int):
        raise reject("window", repr(window), "an integer or None")
    if window < 1:
        raise reject("window", window, "at least 1 (keys visible, the own one included), or None for all")
    if not causal:
        raise InvalidArgumentError(f"window is {window}, but causal is False: a window needs a causal mask")
    return window


def partition_size(requested: int | None, environment: Mapping[str, str] = os.environ) -> int | None:
    """Returns the partition size to use: the environment's, else the caller's, else None (automatic)."""
    text = environment.get(PARTITION_VARIABLE, "")
    name: str = "partition_size"
    value: object = requested
    if text.strip() not in ("", "0"):
        name, value = PARTITION_VARIABLE, text
        if text.strip().isdecimal():
            value = int(text)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise reject(name, repr(value), "a whole number of tokens, at least 1")
    return value


def check_no_overlap(name: str, tensor: torch.Tensor, others: Mapping[str, torch.Tensor]) -> None:
    """Checks that an output's elements lie apart from each other and from all inputs.

    It is written before all inputs are read.
    """
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        raise reject(
            f"the strides of {name}", list(tensor.stride()), "an address of its own for each element"
        )
    start, end = _address_range(tensor)
    for other_name, other in others.items():
        other_start, other_end = _address_range(other)
        if start < other_end and other_start < end:
            raise reject(name, f"overlapping {other_name} in memory", "a buffer of its own")


def _address_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte of a tensor and one past its last; equal for an empty tensor."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.itemsize


def check_lengths(seq_lens: torch.Tensor, block_table: torch.Tensor, block_size: int) -> None:
    """Reads the lengths: none negative, none longer than the table can address."""
    capacity = min(block_table.shape[1] * block_size, MAX_SEQ_LEN)
    wrong = (seq_lens.long() < 0) | (seq_lens.long() > capacity)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise reject(
            f"seq_lens[{row}]",
            int(seq_lens[row]),
            f"0 to {capacity} (block_table has {block_table.shape[1]} columns of {block_size} tokens)",
        )


def check_block_ids(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_blocks: int
) -> None:
    """Reads the used part of the block table: every id must lie in the pool.

    Entries at or past `ceil(seq_len / block_size)` are not looked at: they may hold anything.
    """
    used = (seq_lens.long() + block_size - 1) // block_size
    column = torch.arange(block_table.shape[1], device=block_table.device)
    wrong = ((block_table < 0) | (block_table >= num_blocks)) & (column < used[:, None])
    if bool(wrong.any()):
        row, col = wrong.nonzero()[0].tolist()
        raise reject(
            f"block_table[{row}, {col}]", int(block_table[row, col]), f"a block id from 0 to {num_blocks - 1}"
        )


def check_offsets(name: str, offsets: torch.Tensor, limit: int, what: str) -> None:
    """Reads offsets: from 0, never falling, ending within the `limit` elements that are `what`."""
    if int(offsets[0]) != 0:
        raise reject(f"{name}[0]", int(offsets[0]), "0")
    falling = (offsets[1:] < offsets[:-1]).nonzero().flatten()
    if falling.numel():
        index = int(falling[0]) + 1
        before = int(offsets[index - 1])
        raise reject(f"{name}[{index}]", int(offsets[index]), f"at least its predecessor, {before}")
    if int(offsets[-1]) > limit:
        last = offsets.shape[0] - 1
        raise reject(f"{name}[{last}]", int(offsets[-1]), f"at most {limit}, {what}")


def check_mask_offsets(
    mask_indptr: torch.Tensor, cu_seqlens_q: torch.Tensor, seq_lens: torch.Tensor, mask_size: int
) -> None:
    """Reads the offsets of a custom mask: every sequence's `q_len * kv_len` entries lie within it."""
    num_seqs = seq_lens.shape[0]
    needs = cu_seqlens_q.diff().long() * seq_lens.long()
    starts = mask_indptr[:num_seqs].long()
    wrong = ((starts < 0) | (starts > mask_size - needs)).nonzero().flatten()
    if wrong.numel():
        row = int(wrong[0])
        needed = int(needs[row])
        raise reject(
            f"mask_indptr[{row}]",
            int(mask_indptr[row]),
            f"at least 0, and {needed} below the size of custom_mask, {mask_size}",
        )
