"""The operators for new tokens over a cache that already holds them; `hygon_backend.ops` offers them."""

from __future__ import annotations

import torch

from hygon_backend import dispatch, op_arguments, validation
from hygon_backend.calls.prefill_call import CustomMask, PagedTable, PrefillCall, RaggedTable
from hygon_backend.calls.scale import FP8_DTYPES, Scale
from hygon_backend.errors import InvalidArgumentError, reject
from hygon_backend.kv_layout import KVLayout
from hygon_backend.native_path import prefix_prefill as native_prefix_prefill
from hygon_backend.torch_path import attention

_QUERY_DTYPES = (*validation.QUERY_DTYPES, *FP8_DTYPES)


def prefix_prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    scale: float | None = None,
    layout: KVLayout | str | int = KVLayout.BSHD,
    causal: bool = True,
    partition_size: int | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    q_scale: Scale = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
    custom_mask: torch.Tensor | None = None,
    mask_indptr: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    validate: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention of a batch of new tokens over the paged cache that already holds them.

    Sequence `s` owns query rows `cu_seqlens_q[s] .. cu_seqlens_q[s + 1]`, the last tokens of its
    `seq_lens[s]` keys; the mask is `j <= i + (Lk - Lq)` (source document, section 3.2). Rows of `q`
    past the last offset (padding) get output 0.

    Args:
        q: `[T, Hq, D]`; float16, bfloat16, float32, or fp8.
        k_cache: see `paged_decode`, like `v_cache` and `block_table`.
        v_cache: see `paged_decode`.
        block_table: see `paged_decode`.
        cu_seqlens_q: `[num_seqs + 1]` int32/int64, from 0, never falling.
        seq_lens: `[num_seqs]` int32/int64 key counts, new tokens included.
        scale: see `paged_decode`. The kernels weigh keys exactly for logits up to 2^30 in magnitude.
        layout: see `paged_decode`.
        causal: apply the shifted causal mask; False lets every query see every key.
        partition_size: see `paged_decode`, like all further arguments that are not described here.
        window: see `paged_decode`; needs `causal`.
        softcap: see `paged_decode`.
        sinks: see `paged_decode`.
        alibi_slopes: see `paged_decode`.
        q_scale: factor of stored queries (fp8); number or `[1]`.
        k_scale: see `paged_decode`.
        v_scale: see `paged_decode`.
        custom_mask: bool or uint8, flat: which keys a query sees among its sequence's new tokens, in
            place of the causal rule there (tree speculation). Sequence `s` has its dense `[Lq, Lk]`
            entries at `mask_indptr[s]`; the first `Lk - Lq` columns are the prefix, which all queries see.
            A `window` still applies. Needs `causal`.
        mask_indptr: `[num_seqs]` or `[num_seqs + 1]` int32/int64 offsets into `custom_mask`.
        out: `[T, Hq, Dv]`, written in place; q's dtype, or for fp8 queries float16, bfloat16 or float32.
            Allocated when None; for fp8 queries in the cache's dtype, or bfloat16 where that is fp8 too.
        lse: `[T, Hq]` float32, written in place; implies `return_lse`.
        return_lse: see `paged_decode`.
        validate: see `paged_decode`; also reads `cu_seqlens_q` and `mask_indptr`.

    Returns:
        `out`, or `(out, lse)`.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    validation.check_tensor("q", q, (None, None, None), _QUERY_DTYPES)
    sizes, cache = op_arguments.open_cache(q, k_cache, v_cache, layout, k_scale, v_scale, _QUERY_DTYPES)
    validation.check_tensor("seq_lens", seq_lens, (None,), validation.INDEX_DTYPES, q.device)
    num_seqs = seq_lens.shape[0]
    op_arguments.check_table(block_table, seq_lens, num_seqs, q.device)
    validation.check_tensor("cu_seqlens_q", cu_seqlens_q, (num_seqs + 1,), validation.INDEX_DTYPES, q.device)
    rules = op_arguments.score_rules(q, sizes, scale, causal, window, softcap, sinks, alibi_slopes)
    validation.check_scale("q_scale", q_scale, 1, q.device)
    mask = _custom_mask(custom_mask, mask_indptr, causal, num_seqs, q.device)
    parts = validation.partition_size(partition_size)
    dtype = _out_dtype(q, k_cache, out)
    reads = {
        "block_table": block_table,
        "cu_seqlens_q": cu_seqlens_q,
        "seq_lens": seq_lens,
        "sinks": sinks,
        "alibi_slopes": alibi_slopes,
        "q_scale": q_scale,
        "k_scale": k_scale,
        "v_scale": v_scale,
        "custom_mask": custom_mask,
        "mask_indptr": mask_indptr,
    }
    out, lse = op_arguments.outputs(q, cache, sizes.head_size_v, out, lse, return_lse, reads, dtype)
    if op_arguments.values_are_free(q, validate):
        validation.check_offsets("cu_seqlens_q", cu_seqlens_q, q.shape[0], "the rows of q")
        validation.check_lengths(seq_lens, block_table, sizes.block_size)
        if mask is not None:
            validation.check_mask_offsets(mask.indptr, cu_seqlens_q, seq_lens, mask.mask.shape[0])
    if validate:
        validation.check_block_ids(block_table, seq_lens, sizes.block_size, sizes.num_blocks)
    table = PagedTable(block_table, seq_lens)
    _serve(
        "prefix_prefill", PrefillCall(q, cache, table, cu_seqlens_q, rules, q_scale, mask, out, lse, parts)
    )
    return out if lse is None else (out, lse)


def ragged_prefill(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    partition_size: int | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    q_scale: Scale = None,
    k_scale: Scale = None,
    v_scale: Scale = None,
    custom_mask: torch.Tensor | None = None,
    mask_indptr: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    validate: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`prefix_prefill` in SGLang's form: a pool of token slots and one packed list of them.

    Sequence `s` has the keys in slots `kv_indices[kv_indptr[s] .. kv_indptr[s + 1]]`, its new tokens
    last, and the query rows `qo_indptr[s] .. qo_indptr[s + 1]`. No block table is made of them.

    Args:
        q: see `prefix_prefill`.
        k_buffer: `[num_slots, Hkv, D]`, q's float types or fp8.
        v_buffer: `[num_slots, Hkv, Dv]`, same dtype.
        qo_indptr: `[num_seqs + 1]` int32/int64, from 0, never falling.
        kv_indptr: `[num_seqs + 1]` int32/int64, from 0, never falling.
        kv_indices: `[N]` int32/int64 slots; entries at or past `kv_indptr[num_seqs]` are never read.
        scale: see `prefix_prefill`, like all further arguments.
        causal: see `prefix_prefill`.
        partition_size: see `prefix_prefill`.
        window: see `prefix_prefill`.
        softcap: see `prefix_prefill`.
        sinks: see `prefix_prefill`.
        alibi_slopes: see `prefix_prefill`.
        q_scale: see `prefix_prefill`.
        k_scale: see `prefix_prefill`.
        v_scale: see `prefix_prefill`.
        custom_mask: see `prefix_prefill`.
        mask_indptr: see `prefix_prefill`.
        out: see `prefix_prefill`.
        lse: see `prefix_prefill`.
        return_lse: see `prefix_prefill`.
        validate: also read the slots and check that they lie in the pool; waits for the device.

    Returns:
        `out`, or `(out, lse)`.

    Raises:
        InvalidArgumentError: an argument has a wrong shape, dtype, device or value.
    """
    validation.check_tensor("q", q, (None, None, None), _QUERY_DTYPES)
    validation.check_tensor("k_buffer", k_buffer, (None, None, None), validation.CACHE_DTYPES, q.device)
    shape = (*k_buffer.shape[:2], None)
    validation.check_tensor("v_buffer", v_buffer, shape, (k_buffer.dtype,), q.device)
    sizes, cache = op_arguments.open_cache(
        q, k_buffer.unsqueeze(1), v_buffer.unsqueeze(1), KVLayout.BSHD, k_scale, v_scale, _QUERY_DTYPES
    )
    validation.check_tensor("kv_indices", kv_indices, (None,), validation.INDEX_DTYPES, q.device)
    validation.check_tensor("qo_indptr", qo_indptr, (None,), validation.INDEX_DTYPES, q.device)
    if qo_indptr.shape[0] == 0:
        raise reject("the shape of qo_indptr", [0], "[num_seqs + 1]")
    num_seqs = qo_indptr.shape[0] - 1
    validation.check_tensor("kv_indptr", kv_indptr, (num_seqs + 1,), validation.INDEX_DTYPES, q.device)
    rules = op_arguments.score_rules(q, sizes, scale, causal, window, softcap, sinks, alibi_slopes)
    validation.check_scale("q_scale", q_scale, 1, q.device)
    mask = _custom_mask(custom_mask, mask_indptr, causal, num_seqs, q.device)
    parts = validation.partition_size(partition_size)
    dtype = _out_dtype(q, k_buffer, out)
    reads = {
        "qo_indptr": qo_indptr,
        "kv_indptr": kv_indptr,
        "kv_indices": kv_indices,
        "sinks": sinks,
        "alibi_slopes": alibi_slopes,
        "q_scale": q_scale,
        "k_scale": k_scale,
        "v_scale": v_scale,
        "custom_mask": custom_mask,
        "mask_indptr": mask_indptr,
    }
    out, lse = op_arguments.outputs(q, cache, sizes.head_size_v, out, lse, return_lse, reads, dtype)
    if op_arguments.values_are_free(q, validate):
        validation.check_offsets("qo_indptr", qo_indptr, q.shape[0], "the rows of q")
        validation.check_offsets("kv_indptr", kv_indptr, kv_indices.shape[0], "the size of kv_indices")
        if mask is not None:
            validation.check_mask_offsets(mask.indptr, qo_indptr, kv_indptr.diff(), mask.mask.shape[0])
    if validate:
        used = kv_indices[: int(kv_indptr[-1])]
        wrong = ((used < 0) | (used >= sizes.num_blocks)).nonzero().flatten()
        if wrong.numel():
            index = int(wrong[0])
            raise reject(f"kv_indices[{index}]", int(used[index]), f"a slot from 0 to {sizes.num_blocks - 1}")
    table = RaggedTable(kv_indptr, kv_indices)
    _serve("ragged_prefill", PrefillCall(q, cache, table, qo_indptr, rules, q_scale, mask, out, lse, parts))
    return out if lse is None else (out, lse)


def _serve(operator: str, call: PrefillCall) -> None:
    module = dispatch.choose(call.q.device, native_prefix_prefill.supports(call))
    if module is None:
        attention.prefix_prefill(call)
    else:
        native_prefix_prefill.run(module, call)
    dispatch.count(operator, call.q.device, module)


def _out_dtype(q: torch.Tensor, k_cache: torch.Tensor, out: torch.Tensor | None) -> torch.dtype:
    """The output's element type: q's, or where that is fp8 out's, the cache's, or bfloat16."""
    if q.dtype not in FP8_DTYPES:
        return q.dtype
    if isinstance(out, torch.Tensor) and out.dtype in validation.QUERY_DTYPES:
        return out.dtype
    return torch.bfloat16 if k_cache.dtype in FP8_DTYPES else k_cache.dtype


def _custom_mask(
    mask: torch.Tensor | None,
    indptr: torch.Tensor | None,
    causal: bool,
    num_seqs: int,
    device: torch.device,
) -> CustomMask | None:
    if mask is None:
        if indptr is not None:
            raise InvalidArgumentError("mask_indptr is given, but custom_mask is None: give both or neither")
        return None
    if not causal:
        raise InvalidArgumentError("custom_mask is given, but causal is False: it refines the causal mask")
    validation.check_tensor("custom_mask", mask, (None,), validation.MASK_DTYPES, device)
    if isinstance(indptr, torch.Tensor) and indptr.dim() == 1 and indptr.shape[0] == num_seqs:
        expected = num_seqs
    else:
        expected = num_seqs + 1
    validation.check_tensor("mask_indptr", indptr, (expected,), validation.INDEX_DTYPES, device)
    assert indptr is not None
    return CustomMask(mask, indptr)
