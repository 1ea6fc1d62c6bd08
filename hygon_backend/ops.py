"""The public operators: they validate, choose an implementation and count the call.

On a card compiled kernels serve what they have a kernel for, PyTorch the rest; on the CPU PyTorch
serves everything. `HYGON_BACKEND_TORCH_PATH=1` makes PyTorch serve cards too. A card without working
kernels is an error rather than a slow success: see `hygon_backend.native.module_for`.

All take strided tensors. Caches are read and written in place in any layout of
`hygon_backend.kv_layout`. The exact semantics (mask, window, softcap, ALiBi, sinks, LSE, empty rows)
are those of `hygon_backend.reference`.
"""

from __future__ import annotations

import torch

from hygon_backend import dispatch, op_arguments, validation
from hygon_backend.calls.paged_cache import PagedCache
from hygon_backend.calls.scale import Scale
from hygon_backend.errors import reject
from hygon_backend.kv_layout import KVLayout, parse_layout
from hygon_backend.native_path import copy_blocks as native_copy_blocks
from hygon_backend.native_path import gather_kv as native_gather_kv
from hygon_backend.native_path import merge_states as native_merge_states
from hygon_backend.native_path import paged_decode as native_paged_decode
from hygon_backend.native_path import write_kv as native_write_kv
from hygon_backend.prefill import prefix_prefill, ragged_prefill
from hygon_backend.torch_path import attention, kv_cache
from hygon_backend.torch_path.scores import combine

__all__ = [
    "copy_blocks",
    "gather_kv",
    "merge_states",
    "paged_decode",
    "prefix_prefill",
    "ragged_prefill",
    "write_kv",
]


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    scale: float | None = None,
    layout: KVLayout | str | int = KVLayout.BSHD,
    partition_size: int | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    validate: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention of the newest token(s) of every sequence over its paged keys and values.

    Args:
        q: `[num_seqs, Hq, D]`, or `[num_seqs, q_len, Hq, D]` when every sequence has `q_len` new
            tokens (speculative decoding); float16, bfloat16 or float32.
        k_cache: paged keys, new tokens included, in `layout`; q's float types or fp8.
        v_cache: paged values, same dtype; their head size `Dv` may differ from `D`.
        block_table: `[num_seqs, max_blocks]` int32/int64 page ids. Entries at or past
            `ceil(seq_len / block_size)` are never read.
        seq_lens: `[num_seqs]` int32/int64 key counts; 0 is legal and gives an empty row.
        scale: factor of the dot product; `1 / sqrt(D)` when None.
        layout: cache layout, a `KVLayout`, its name or a vendor code.
        partition_size: keys per split-KV partition; None chooses. `PA_PARTITION_SIZE` overrides.
        window: keys visible to a query, its own included; None for all.
        softcap: logit cap; None or 0 for none.
        sinks: `[Hq]` logits added to the softmax denominator.
        alibi_slopes: `[Hq]` slopes of the linear position bias.
        k_scale: factor of stored keys (fp8); number, `[1]` or `[Hkv]`.
        v_scale: factor of stored values (fp8).
        out: written in place, q's shape with `Dv` last, q's dtype; allocated when None.
        lse: written in place, q's shape without its last axis, float32; implies `return_lse`.
        return_lse: also return the natural-log LSE.
        validate: read page ids (and, on a card, lengths) and check them; waits for the device.

    Returns:
        `out`, or `(out, lse)`.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    if not isinstance(q, torch.Tensor) or q.dim() not in (3, 4):
        found = list(q.shape) if isinstance(q, torch.Tensor) else type(q).__name__
        raise reject("q", found, "a tensor [num_seqs, Hq, D] or [num_seqs, q_len, Hq, D]")
    sizes, cache = op_arguments.open_cache(q, k_cache, v_cache, layout, k_scale, v_scale)
    op_arguments.check_table(block_table, seq_lens, q.shape[0], q.device)
    rules = op_arguments.score_rules(q, sizes, scale, True, window, softcap, sinks, alibi_slopes)
    parts = validation.partition_size(partition_size)
    reads = {
        "block_table": block_table,
        "seq_lens": seq_lens,
        "sinks": sinks,
        "alibi_slopes": alibi_slopes,
        "k_scale": k_scale,
        "v_scale": v_scale,
    }
    out, lse = op_arguments.outputs(q, cache, sizes.head_size_v, out, lse, return_lse, reads)
    if op_arguments.values_are_free(q, validate):
        validation.check_lengths(seq_lens, block_table, sizes.block_size)
    if validate:
        validation.check_block_ids(block_table, seq_lens, sizes.block_size, sizes.num_blocks)
    one = q.dim() == 3
    arguments = (
        q.unsqueeze(1) if one else q,
        cache,
        block_table,
        seq_lens,
        rules,
        out.unsqueeze(1) if one else out,
        lse if lse is None or not one else lse.unsqueeze(1),
        parts,
    )
    module = dispatch.choose(q.device, native_paged_decode.supports(q, cache))
    if module is None:
        attention.paged_decode(*arguments)
    else:
        native_paged_decode.run(module, *arguments)
    dispatch.count("paged_decode", q.device, module)
    return out if lse is None else (out, lse)


def write_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    layout: KVLayout | str | int = KVLayout.BSHD,
    k_scale: Scale = None,
    v_scale: Scale = None,
    validate: bool = False,
) -> None:
    """Stores new keys and values in their cache slots.

    Args:
        k: `[T, Hkv, D]`; float16, bfloat16 or float32.
        v: `[T, Hkv, Dv]`, same dtype.
        k_cache: changed in place; stored are `k / k_scale`, saturated for fp8, NaN kept.
        v_cache: changed in place.
        slot_mapping: `[T]` int32/int64; slot `block * block_size + offset`, negative to skip the
            token. No slot may appear twice.
        layout: see `paged_decode`.
        k_scale: number, `[1]` or `[Hkv]`.
        v_scale: number, `[1]` or `[Hkv]`.
        validate: read the slots and check that they lie in the pool; waits for the device.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value; nothing is
            written then.
    """
    parsed = parse_layout(layout)
    validation.check_tensor("k", k, (None, None, None), validation.QUERY_DTYPES)
    sizes = validation.check_cache(k_cache, v_cache, parsed, k.device)
    tokens, heads = k.shape[0], sizes.num_kv_heads
    validation.check_tensor("k", k, (tokens, heads, sizes.head_size), validation.QUERY_DTYPES)
    validation.check_tensor("v", v, (tokens, heads, sizes.head_size_v), (k.dtype,), k.device)
    validation.check_tensor("slot_mapping", slot_mapping, (tokens,), validation.INDEX_DTYPES, k.device)
    validation.check_scale("k_scale", k_scale, heads, k.device)
    validation.check_scale("v_scale", v_scale, heads, k.device)
    if op_arguments.values_are_free(k, validate):
        wrong = (slot_mapping >= sizes.num_blocks * sizes.block_size).nonzero().flatten()
        if wrong.numel():
            row, limit = int(wrong[0]), sizes.num_blocks * sizes.block_size
            raise reject(f"slot_mapping[{row}]", int(slot_mapping[row]), f"below {limit}, or negative")
    arguments = (k, v, k_cache, v_cache, slot_mapping, parsed, sizes.block_size, k_scale, v_scale)
    module = dispatch.choose(k.device, native_write_kv.supports(k, k_cache))
    if module is None:
        kv_cache.write_kv(*arguments)
    else:
        native_write_kv.run(module, *arguments)
    dispatch.count("write_kv", k.device, module)


def copy_blocks(caches: list[torch.Tensor], block_mapping: torch.Tensor, *, validate: bool = False) -> None:
    """Copies whole pages within each cache, for copy-on-write (source document, section 1.2).

    Args:
        caches: key and value caches (of any number of layers), page axis first, changed in place.
        block_mapping: `[n, 2]` int32/int64 rows of (source, destination) page ids. No page may be
            the destination of two rows, or source of one and destination of another: a kernel
            copies all rows at once.
        validate: read the mapping and check those rules; waits for the device.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value; nothing is
            copied then.
    """
    if not isinstance(caches, list | tuple):
        raise reject("caches", type(caches).__name__, "a list of at least one cache")
    if not caches:
        raise reject("caches", "empty", "a list of at least one cache")
    for index, cache in enumerate(caches):
        if not isinstance(cache, torch.Tensor) or cache.dim() < 2:
            raise reject(f"caches[{index}]", "no page pool", "a tensor whose first axis is the page")
        if cache.device != caches[0].device:
            expected = f"{caches[0].device}, like the other tensors"
            raise reject(f"the device of caches[{index}]", cache.device, expected)
    validation.check_tensor(
        "block_mapping", block_mapping, (None, 2), validation.INDEX_DTYPES, caches[0].device
    )
    if op_arguments.values_are_free(block_mapping, validate):
        _check_block_mapping(block_mapping, min(cache.shape[0] for cache in caches))
    module = dispatch.choose(block_mapping.device, native_copy_blocks.supports(caches))
    if module is None:
        kv_cache.copy_blocks(caches, block_mapping)
    else:
        native_copy_blocks.run(module, caches, block_mapping)
    dispatch.count("copy_blocks", block_mapping.device, module)


def gather_kv(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    layout: KVLayout | str | int = KVLayout.BSHD,
    k_scale: Scale = None,
    v_scale: Scale = None,
    dtype: torch.dtype | None = None,
    validate: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Copies all sequences' keys and values out of the cache, packed without padding.

    Args:
        k_cache: see `paged_decode`.
        v_cache: see `paged_decode`.
        block_table: see `paged_decode`.
        seq_lens: see `paged_decode`.
        layout: see `paged_decode`.
        k_scale: see `paged_decode`.
        v_scale: see `paged_decode`.
        dtype: element type of the result; the cache's own when None (float32 for fp8).
        validate: see `paged_decode`.

    Returns:
        keys `[sum(seq_lens), Hkv, D]`, values `[sum(seq_lens), Hkv, Dv]` and `cu_seqlens_k`
        `[num_seqs + 1]` int32.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    parsed = parse_layout(layout)
    sizes = validation.check_cache(k_cache, v_cache, parsed)
    device = k_cache.device
    validation.check_tensor("seq_lens", seq_lens, (None,), validation.INDEX_DTYPES, device)
    op_arguments.check_table(block_table, seq_lens, seq_lens.shape[0], device)
    validation.check_scale("k_scale", k_scale, sizes.num_kv_heads, device)
    validation.check_scale("v_scale", v_scale, sizes.num_kv_heads, device)
    if op_arguments.values_are_free(k_cache, validate):
        validation.check_lengths(seq_lens, block_table, sizes.block_size)
    if validate:
        validation.check_block_ids(block_table, seq_lens, sizes.block_size, sizes.num_blocks)
    if dtype is None:
        dtype = torch.float32 if k_cache.itemsize == 1 else k_cache.dtype
    if dtype not in validation.CACHE_DTYPES:
        raise reject("dtype", dtype, "one of " + ", ".join(str(x) for x in validation.CACHE_DTYPES))
    cache = PagedCache(k_cache, v_cache, parsed, sizes.block_size, k_scale, v_scale)
    cu_seqlens_k = torch.zeros(len(seq_lens) + 1, dtype=torch.int32, device=device)
    torch.cumsum(seq_lens, 0, dtype=torch.int32, out=cu_seqlens_k[1:])
    module = dispatch.choose(device, native_gather_kv.supports(cache, dtype))
    if module is None:
        keys, values = kv_cache.gather_kv(cache, sizes, block_table, seq_lens, dtype)
    else:
        keys, values = native_gather_kv.run(module, cache, sizes, block_table, seq_lens, cu_seqlens_k, dtype)
    dispatch.count("gather_kv", device, module)
    return keys, values, cu_seqlens_k


def merge_states(
    o_a: torch.Tensor, lse_a: torch.Tensor, o_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merges two attention results over disjoint sets of keys.

    Args:
        o_a: `[T, H, D]` normalised output over the first set.
        lse_a: `[T, H]` float32 natural-log LSE; -inf marks an empty set, whose output is ignored.
        o_b: the same over the second set, o_a's shape and dtype.
        lse_b: the same over the second set.

    Returns:
        out in o_a's dtype and lse float32; empty merged with empty gives 0 and -inf, never NaN.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype or device.
    """
    validation.check_tensor("o_a", o_a, (None, None, None), validation.QUERY_DTYPES)
    validation.check_tensor("o_b", o_b, tuple(o_a.shape), (o_a.dtype,), o_a.device)
    for name, lse in (("lse_a", lse_a), ("lse_b", lse_b)):
        validation.check_tensor(name, lse, tuple(o_a.shape[:2]), (torch.float32,), o_a.device)
    module = dispatch.choose(o_a.device, native_merge_states.supports(o_a))
    if module is None:
        merged, lse = combine(torch.stack([o_a.float(), o_b.float()]), torch.stack([lse_a, lse_b]))
        out = merged.to(o_a.dtype)
    else:
        out, lse = native_merge_states.run(module, o_a, lse_a, o_b, lse_b)
    dispatch.count("merge_states", o_a.device, module)
    return out, lse


def _check_block_mapping(block_mapping: torch.Tensor, num_blocks: int) -> None:
    seen: set[int] = set()
    rows = block_mapping.tolist()
    sources = {source for source, _ in rows}
    for index, (source, target) in enumerate(rows):
        for column, block in enumerate((source, target)):
            if not 0 <= block < num_blocks:
                raise reject(
                    f"block_mapping[{index}, {column}]", block, f"a block id from 0 to {num_blocks - 1}"
                )
        if target in seen or target in sources:
            raise reject(f"block_mapping[{index}, 1]", target, "a page that no other row copies from or to")
        seen.add(target)
