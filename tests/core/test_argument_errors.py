"""Every illegal argument is refused in one sentence that names it, and nothing is changed.

A case spoils one argument of a legal call (`support.calls`). The whole message is compared: it must
name the argument, its value and what is allowed.
"""

import math
from typing import Any

import pytest
import torch
from support.bits import unchanged
from support.calls import CALLS

from hygon_backend import ops
from hygon_backend.errors import InvalidArgumentError

QUERY = "one of torch.float16, torch.bfloat16, torch.float32"
CACHE = f"{QUERY}, torch.float8_e4m3fn, torch.float8_e5m2"
INDEX = "one of torch.int32, torch.int64"
ON_META = "meta, but must be cpu, like the other tensors"

Case = tuple[dict[str, Any], str]


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor on another device, at no cost."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def ints(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


def scale_cases(name: str) -> list[Case]:
    shape, allowed = f"the shape of {name} is", "but must be [], [1] or [2]"
    return [
        ({name: torch.ones(3)}, f"{shape} [3], {allowed}"),
        ({name: torch.ones(1, 2)}, f"{shape} [1, 2], {allowed}"),
        ({name: torch.ones(1, 1)}, f"{shape} [1, 1], {allowed}"),
        ({name: ints(2)}, f"the dtype of {name} is torch.int32, but must be a floating-point type"),
        ({name: meta(2)}, f"the device of {name} is {ON_META}"),
        ({name: 0}, f"{name} is 0, but must be a finite number above 0"),
        ({name: -0.5}, f"{name} is -0.5, but must be a finite number above 0"),
        ({name: math.inf}, f"{name} is inf, but must be a finite number above 0"),
        ({name: math.nan}, f"{name} is nan, but must be a finite number above 0"),
        ({name: "1.0"}, f"{name} is '1.0', but must be None, a number or a tensor"),
        ({name: True}, f"{name} is True, but must be None, a number or a tensor"),
    ]


def per_head_cases(name: str) -> list[Case]:
    return [
        ({name: [0.0] * 4}, f"{name} is list, but must be a tensor"),
        ({name: torch.ones(3)}, f"the shape of {name} is [3], but must be [4]"),
        ({name: torch.ones(4, 1)}, f"the shape of {name} is [4, 1], but must be [4]"),
        ({name: ints(4)}, f"the dtype of {name} is torch.int32, but must be {QUERY}"),
        ({name: meta(4)}, f"the device of {name} is {ON_META}"),
    ]


def cache_cases() -> list[Case]:
    agree = "(layout 'bshd', k_cache shape (6, 4, 2, 8), v_cache shape"
    return [
        ({"k_cache": None}, "k_cache is NoneType, but must be a tensor"),
        ({"v_cache": [1.0]}, "v_cache is list, but must be a tensor"),
        ({"k_cache": ints(6, 4, 2, 8)}, f"the dtype of k_cache is torch.int32, but must be {CACHE}"),
        (
            {"v_cache": torch.ones(6, 4, 2, 16).double()},
            f"the dtype of v_cache is torch.float64, but must be {CACHE}",
        ),
        (
            {"v_cache": torch.ones(6, 4, 2, 16).half()},
            "the dtype of v_cache is torch.float16, but must be torch.float32, like k_cache",
        ),
        ({"v_cache": meta(6, 4, 2, 16)}, f"the device of v_cache is {ON_META}"),
        (
            {"k_cache": torch.ones(6, 4, 2)},
            "k_cache is 3-dimensional, but must be 4-dimensional in layout 'bshd'",
        ),
        (
            {"v_cache": torch.ones(6, 4, 2, 2, 8)},
            "v_cache is 5-dimensional, but must be 4-dimensional in layout 'bshd'",
        ),
        (
            {"v_cache": torch.ones(7, 4, 2, 16)},
            f"v_cache has num_blocks 7, but k_cache has 6 {agree} (7, 4, 2, 16))",
        ),
        (
            {"v_cache": torch.ones(6, 5, 2, 16)},
            f"v_cache has block_size 5, but k_cache has 4 {agree} (6, 5, 2, 16))",
        ),
        (
            {"v_cache": torch.ones(6, 4, 3, 16)},
            f"v_cache has num_kv_heads 3, but k_cache has 2 {agree} (6, 4, 3, 16))",
        ),
        (
            {"k_cache": torch.ones(6, 257, 2, 8), "v_cache": torch.ones(6, 257, 2, 16)},
            "block_size is 257, but must be 1 to 256 tokens (k_cache shape, layout 'bshd')",
        ),
        ({"k_cache": torch.ones(6, 4, 2, 257)}, "head_size is 257, but must be 1 to 256"),
        ({"v_cache": torch.ones(6, 4, 2, 0)}, "head_size_v is 0, but must be 1 to 256"),
        (
            {"layout": "nhd"},
            "layout is 'nhd', but must be one of 'bshd', 'bhsd', 'bhsd_vt', 'x_packed', "
            "or a vendor code 0, 1 or 2",
        ),
        *scale_cases("k_scale"),
        *scale_cases("v_scale"),
    ]


def table_cases() -> list[Case]:
    capacity = "but must be 0 to 12 (block_table has 3 columns of 4 tokens)"
    ids = "but must be a block id from 0 to 5"
    return [
        ({"seq_lens": [9, 3]}, "seq_lens is list, but must be a tensor"),
        ({"seq_lens": ints(2, 1)}, "the shape of seq_lens is [2, 1], but must be [{seq_lens}]"),
        ({"seq_lens": torch.ones(2)}, f"the dtype of seq_lens is torch.float32, but must be {INDEX}"),
        (
            {"seq_lens": ints(2, dtype=torch.int16)},
            f"the dtype of seq_lens is torch.int16, but must be {INDEX}",
        ),
        ({"seq_lens": meta(2, dtype=torch.int32)}, f"the device of seq_lens is {ON_META}"),
        ({"block_table": None}, "block_table is NoneType, but must be a tensor"),
        ({"block_table": ints(3, 3)}, "the shape of block_table is [3, 3], but must be [2, any]"),
        ({"block_table": ints(6)}, "the shape of block_table is [6], but must be [2, any]"),
        (
            {"block_table": torch.ones(2, 3)},
            f"the dtype of block_table is torch.float32, but must be {INDEX}",
        ),
        ({"block_table": meta(2, 3, dtype=torch.int32)}, f"the device of block_table is {ON_META}"),
        ({"seq_lens": torch.tensor([9, -1]), "validate": True}, f"seq_lens[1] is -1, {capacity}"),
        ({"seq_lens": torch.tensor([13, 3]), "validate": True}, f"seq_lens[0] is 13, {capacity}"),
        (
            {"block_table": torch.tensor([[1, 2, 6], [4, 0, 0]]), "validate": True},
            f"block_table[0, 2] is 6, {ids}",
        ),
        (
            {"block_table": torch.tensor([[1, 2, 3], [-1, 0, 0]]), "validate": True},
            f"block_table[1, 0] is -1, {ids}",
        ),
    ]


def attention_cases() -> list[Case]:
    window = "but must be at least 1 (keys visible, the own one included), or None for all"
    tokens = "but must be a whole number of tokens, at least 1"
    return [
        *cache_cases(),
        *table_cases(),
        *per_head_cases("sinks"),
        *per_head_cases("alibi_slopes"),
        (
            {"k_cache": torch.ones(6, 4, 0, 8), "v_cache": torch.ones(6, 4, 0, 16)},
            "the number of query heads is 4, but must be a multiple of the 0 KV heads",
        ),
        ({"scale": math.nan}, "scale is nan, but must be a finite number or None"),
        ({"scale": math.inf}, "scale is inf, but must be a finite number or None"),
        ({"scale": "0.1"}, "scale is '0.1', but must be a finite number or None"),
        ({"scale": True}, "scale is True, but must be a finite number or None"),
        ({"scale": 1e39}, "scale is 1e+39, but must be at most 1e+38 in magnitude"),
        ({"softcap": 3e38}, "softcap is 3e+38, but must be 0 (off), or 1.18e-38 to 1e+38"),
        ({"softcap": -1.0}, "softcap is -1.0, but must be a finite number, 0 (off) or above"),
        ({"softcap": math.inf}, "softcap is inf, but must be a finite number, 0 (off) or above"),
        ({"softcap": math.nan}, "softcap is nan, but must be a finite number, 0 (off) or above"),
        ({"softcap": 1e-60}, "softcap is 1e-60, but must be 0 (off), or 1.18e-38 to 1e+38"),
        ({"softcap": "30"}, "softcap is '30', but must be a number or None"),
        ({"softcap": False}, "softcap is False, but must be a number or None"),
        ({"window": 0}, f"window is 0, {window}"),
        ({"window": -1}, f"window is -1, {window}"),
        ({"window": 4.0}, "window is 4.0, but must be an integer or None"),
        ({"window": True}, "window is True, but must be an integer or None"),
        ({"partition_size": 0}, f"partition_size is 0, {tokens}"),
        ({"partition_size": -64}, f"partition_size is -64, {tokens}"),
        ({"partition_size": 64.0}, f"partition_size is 64.0, {tokens}"),
        ({"partition_size": True}, f"partition_size is True, {tokens}"),
        ({"out": 3}, "out is int, but must be a tensor"),
        ({"out": torch.ones(1, 4, 16)}, "the shape of out is [1, 4, 16], but must be [{rows}, 4, 16]"),
        ({"out": torch.ones(6, 4, 8)}, "the shape of out is [6, 4, 8], but must be [{rows}, 4, 16]"),
        ({"lse": torch.ones(1, 4)}, "the shape of lse is [1, 4], but must be [{rows}, 4]"),
    ]


DECODE_CASES: list[Case] = [
    *attention_cases(),
    ({"q": "q"}, "q is str, but must be a tensor [num_seqs, Hq, D] or [num_seqs, q_len, Hq, D]"),
    (
        {"q": torch.ones(4, 8)},
        "q is [4, 8], but must be a tensor [num_seqs, Hq, D] or [num_seqs, q_len, Hq, D]",
    ),
    ({"q": torch.ones(2, 4, 16)}, "the shape of q is [2, 4, 16], but must be [any, 4, 8]"),
    ({"q": torch.ones(2, 1, 4, 9)}, "the shape of q is [2, 1, 4, 9], but must be [any, any, 4, 8]"),
    ({"q": torch.ones(2, 4, 8).double()}, f"the dtype of q is torch.float64, but must be {QUERY}"),
    ({"q": torch.ones(2, 5, 8)}, "the number of query heads is 5, but must be a multiple of the 2 KV heads"),
    ({"q": torch.ones(3, 4, 8)}, "the shape of seq_lens is [2], but must be [3]"),
    (
        {"out": torch.ones(2, 4, 16).half()},
        "the dtype of out is torch.float16, but must be one of torch.float32",
    ),
    ({"out": meta(2, 4, 16)}, f"the device of out is {ON_META}"),
    (
        {"lse": torch.ones(1, 4).expand(2, 4)},
        "the strides of lse is [0, 1], but must be an address of its own for each element",
    ),
    ({"lse": torch.ones(2, 4).half()}, "the dtype of lse is torch.float16, but must be one of torch.float32"),
    ({"lse": meta(2, 4)}, f"the device of lse is {ON_META}"),
]


def mask_cases() -> list[Case]:
    ones = torch.ones(48).bool()
    return [
        ({"mask_indptr": ints(3)}, "mask_indptr is given, but custom_mask is None: give both or neither"),
        (
            {"custom_mask": ones, "causal": False, "mask_indptr": ints(3)},
            "custom_mask is given, but causal is False: it refines the causal mask",
        ),
        ({"custom_mask": ones}, "mask_indptr is NoneType, but must be a tensor"),
        ({"custom_mask": ones, "mask_indptr": ints(4)}, "the shape of mask_indptr is [4], but must be [3]"),
        (
            {"custom_mask": ones.float(), "mask_indptr": ints(3)},
            "the dtype of custom_mask is torch.float32, but must be one of torch.bool, torch.uint8",
        ),
    ]


PREFILL_CASES: list[Case] = [
    *attention_cases(),
    ({"q": "q"}, "q is str, but must be a tensor"),
    ({"q": torch.ones(4, 8)}, "the shape of q is [4, 8], but must be [any, any, any]"),
    ({"q": torch.ones(6, 4, 16)}, "the shape of q is [6, 4, 16], but must be [any, 4, 8]"),
    ({"q": torch.ones(6, 4, 8).double()}, f"the dtype of q is torch.float64, but must be {CACHE}"),
    ({"q": torch.ones(6, 3, 8)}, "the number of query heads is 3, but must be a multiple of the 2 KV heads"),
    ({"causal": "no"}, "causal is 'no', but must be True or False"),
    (
        {"custom_mask": torch.ones(48).bool(), "mask_indptr": torch.tensor([2**63 - 1, 45])},
        "mask_indptr[0] is 9223372036854775807, but must be at least 0, "
        "and 45 below the size of custom_mask, 48",
    ),
    ({"causal": False, "window": 4}, "window is 4, but causal is False: a window needs a causal mask"),
    *mask_cases(),
    ({"q_scale": torch.ones(2)}, "the shape of q_scale is [2], but must be [] or [1]"),
    (
        {"custom_mask": torch.ones(48).bool(), "mask_indptr": torch.tensor([0, 46]), "validate": True},
        "mask_indptr[1] is 46, but must be at least 0, and 3 below the size of custom_mask, 48",
    ),
    ({"cu_seqlens_q": [0, 5, 6]}, "cu_seqlens_q is list, but must be a tensor"),
    ({"cu_seqlens_q": ints(2)}, "the shape of cu_seqlens_q is [2], but must be [3]"),
    ({"cu_seqlens_q": torch.zeros(3)}, f"the dtype of cu_seqlens_q is torch.float32, but must be {INDEX}"),
    ({"cu_seqlens_q": meta(3, dtype=torch.int32)}, f"the device of cu_seqlens_q is {ON_META}"),
    ({"cu_seqlens_q": torch.tensor([1, 5, 6]), "validate": True}, "cu_seqlens_q[0] is 1, but must be 0"),
    (
        {"cu_seqlens_q": torch.tensor([0, 5, 4]), "validate": True},
        "cu_seqlens_q[2] is 4, but must be at least its predecessor, 5",
    ),
    (
        {"cu_seqlens_q": torch.tensor([0, 5, 7]), "validate": True},
        "cu_seqlens_q[2] is 7, but must be at most 6, the rows of q",
    ),
    (
        {"out": torch.ones(6, 4, 16).half()},
        "the dtype of out is torch.float16, but must be one of torch.float32",
    ),
    ({"lse": meta(6, 4)}, f"the device of lse is {ON_META}"),
]

RAGGED_CASES: list[Case] = [
    *mask_cases(),
    ({"q": "q"}, "q is str, but must be a tensor"),
    (
        {"k_buffer": torch.ones(24, 1, 2, 8)},
        "the shape of k_buffer is [24, 1, 2, 8], but must be [any, any, any]",
    ),
    (
        {"v_buffer": torch.ones(24, 2, 16).half()},
        "the dtype of v_buffer is torch.float16, but must be one of torch.float32",
    ),
    ({"qo_indptr": ints(0)}, "the shape of qo_indptr is [0], but must be [num_seqs + 1]"),
    ({"kv_indptr": ints(2)}, "the shape of kv_indptr is [2], but must be [3]"),
    ({"kv_indices": torch.ones(12)}, f"the dtype of kv_indices is torch.float32, but must be {INDEX}"),
    (
        {"kv_indptr": torch.tensor([0, 9, 14]), "validate": True},
        "kv_indptr[2] is 14, but must be at most 13, the size of kv_indices",
    ),
    (
        {"qo_indptr": torch.tensor([0, 5, 7]), "validate": True},
        "qo_indptr[2] is 7, but must be at most 6, the rows of q",
    ),
    (
        {"kv_indices": torch.tensor([*range(11), 24, -1]), "validate": True},
        "kv_indices[11] is 24, but must be a slot from 0 to 23",
    ),
    (
        {"window": 0},
        "window is 0, but must be at least 1 (keys visible, the own one included), or None for all",
    ),
]

WRITE_CASES: list[Case] = [
    *cache_cases(),
    ({"k": 1}, "k is int, but must be a tensor"),
    ({"k": torch.ones(3, 16)}, "the shape of k is [3, 16], but must be [any, any, any]"),
    ({"k": torch.ones(3, 3, 8)}, "the shape of k is [3, 3, 8], but must be [3, 2, 8]"),
    ({"k": torch.ones(3, 2, 9)}, "the shape of k is [3, 2, 9], but must be [3, 2, 8]"),
    ({"k": torch.ones(3, 2, 8).double()}, f"the dtype of k is torch.float64, but must be {QUERY}"),
    ({"v": None}, "v is NoneType, but must be a tensor"),
    ({"v": torch.ones(2, 2, 16)}, "the shape of v is [2, 2, 16], but must be [3, 2, 16]"),
    ({"v": torch.ones(3, 2, 8)}, "the shape of v is [3, 2, 8], but must be [3, 2, 16]"),
    ({"v": torch.ones(3, 2, 16).half()}, "the dtype of v is torch.float16, but must be one of torch.float32"),
    ({"v": meta(3, 2, 16)}, f"the device of v is {ON_META}"),
    ({"slot_mapping": [0, 1, 2]}, "slot_mapping is list, but must be a tensor"),
    ({"slot_mapping": ints(2)}, "the shape of slot_mapping is [2], but must be [3]"),
    ({"slot_mapping": torch.zeros(3)}, f"the dtype of slot_mapping is torch.float32, but must be {INDEX}"),
    ({"slot_mapping": meta(3, dtype=torch.int32)}, f"the device of slot_mapping is {ON_META}"),
    (
        {"slot_mapping": torch.tensor([0, -1, 24]), "validate": True},
        "slot_mapping[2] is 24, but must be below 24, or negative",
    ),
]

COPY_CASES: list[Case] = [
    ({"caches": []}, "caches is empty, but must be a list of at least one cache"),
    ({"caches": ["x"]}, "caches[0] is no page pool, but must be a tensor whose first axis is the page"),
    (
        {"caches": [torch.ones(6, 4), torch.ones(6)]},
        "caches[1] is no page pool, but must be a tensor whose first axis is the page",
    ),
    (
        {"caches": [torch.ones(6, 4), meta(6, 4)]},
        f"the device of caches[1] is {ON_META}",
    ),
    ({"block_mapping": [[0, 1]]}, "block_mapping is list, but must be a tensor"),
    ({"block_mapping": ints(2)}, "the shape of block_mapping is [2], but must be [any, 2]"),
    ({"block_mapping": ints(2, 3)}, "the shape of block_mapping is [2, 3], but must be [any, 2]"),
    (
        {"block_mapping": torch.zeros(1, 2)},
        f"the dtype of block_mapping is torch.float32, but must be {INDEX}",
    ),
    ({"block_mapping": meta(1, 2, dtype=torch.int64)}, f"the device of block_mapping is {ON_META}"),
    (
        {"block_mapping": torch.tensor([[0, 1], [6, 2]]), "validate": True},
        "block_mapping[1, 0] is 6, but must be a block id from 0 to 5",
    ),
    (
        {"block_mapping": torch.tensor([[0, -1]]), "validate": True},
        "block_mapping[0, 1] is -1, but must be a block id from 0 to 5",
    ),
    (
        {
            "caches": [torch.ones(6, 4), torch.ones(5, 4)],
            "block_mapping": torch.tensor([[0, 5]]),
            "validate": True,
        },
        "block_mapping[0, 1] is 5, but must be a block id from 0 to 4",
    ),
    (
        {"block_mapping": torch.tensor([[0, 1], [2, 1]]), "validate": True},
        "block_mapping[1, 1] is 1, but must be a page that no other row copies from or to",
    ),
    (
        {"block_mapping": torch.tensor([[0, 1], [1, 2]]), "validate": True},
        "block_mapping[0, 1] is 1, but must be a page that no other row copies from or to",
    ),
]

MERGE_CASES: list[Case] = [
    ({"o_a": None}, "o_a is NoneType, but must be a tensor"),
    ({"o_a": torch.ones(2, 3)}, "the shape of o_a is [2, 3], but must be [any, any, any]"),
    ({"o_a": torch.ones(2, 3, 8).double()}, f"the dtype of o_a is torch.float64, but must be {QUERY}"),
    ({"o_b": torch.ones(2, 3, 9)}, "the shape of o_b is [2, 3, 9], but must be [2, 3, 8]"),
    (
        {"o_b": torch.ones(2, 3, 8).half()},
        "the dtype of o_b is torch.float16, but must be one of torch.float32",
    ),
    ({"o_b": meta(2, 3, 8)}, f"the device of o_b is {ON_META}"),
    ({"lse_a": torch.ones(2, 3, 1)}, "the shape of lse_a is [2, 3, 1], but must be [2, 3]"),
    ({"lse_b": torch.ones(3, 2)}, "the shape of lse_b is [3, 2], but must be [2, 3]"),
    (
        {"lse_a": torch.ones(2, 3).half()},
        "the dtype of lse_a is torch.float16, but must be one of torch.float32",
    ),
    ({"lse_b": meta(2, 3)}, f"the device of lse_b is {ON_META}"),
]

GATHER_CASES: list[Case] = [*cache_cases(), *table_cases()]

PLACEHOLDERS = {
    "paged_decode": {"rows": "2", "seq_lens": "2"},
    "prefix_prefill": {"rows": "6", "seq_lens": "any"},
    "gather_kv": {"seq_lens": "any"},
}
"""Where a message of a shared case depends on the operator."""

ALL_CASES = {
    "paged_decode": DECODE_CASES,
    "prefix_prefill": PREFILL_CASES,
    "ragged_prefill": RAGGED_CASES,
    "write_kv": WRITE_CASES,
    "gather_kv": GATHER_CASES,
    "copy_blocks": COPY_CASES,
    "merge_states": MERGE_CASES,
}


def parameters() -> list[Any]:
    return [
        pytest.param(operator, spoilt, message, id=f"{operator}: {message[:60]}")
        for operator, cases in ALL_CASES.items()
        for spoilt, message in cases
    ]


def watched(call: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a call whose memory can be looked at."""
    named = {**call, **{f"caches[{i}]": cache for i, cache in enumerate(call.get("caches", []))}}
    return {n: x for n, x in named.items() if isinstance(x, torch.Tensor) and x.device.type == "cpu"}


@pytest.mark.parametrize(("operator", "spoilt", "message"), parameters())
def test_refuses_in_one_sentence_and_changes_nothing(
    operator: str, spoilt: dict[str, Any], message: str
) -> None:
    call = {**CALLS[operator](), **spoilt}
    for name, text in PLACEHOLDERS.get(operator, {}).items():
        message = message.replace("{" + name + "}", text)
    with unchanged(**watched(call)), pytest.raises(InvalidArgumentError) as caught:
        getattr(ops, operator)(**call)
    assert str(caught.value) == message


@pytest.mark.parametrize("operator", CALLS)
def test_the_call_that_the_cases_spoil_is_legal(operator: str) -> None:
    call = CALLS[operator]()
    validate = {} if operator == "merge_states" else {"validate": True}
    getattr(ops, operator)(**call, **validate)


@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill", "gather_kv"])
def test_validation_ignores_entries_that_are_never_read(operator: str) -> None:
    call = CALLS[operator]()
    call["block_table"] = torch.tensor([[1, 2, 3], [-1, 99, -(2**31)]])
    call["seq_lens"] = torch.tensor([12, 0])
    getattr(ops, operator)(**call, validate=True)


@pytest.mark.parametrize("name", ["k_scale", "v_scale"])
@pytest.mark.parametrize("scale", [2, 0.5, torch.tensor(2.0), torch.ones(1), torch.ones(2).bfloat16()])
def test_every_documented_form_of_a_scale_is_accepted(name: str, scale: Any) -> None:  # noqa: ANN401
    for operator in ("paged_decode", "prefix_prefill", "write_kv", "gather_kv"):
        getattr(ops, operator)(**CALLS[operator](), **{name: scale})


def test_lse_inside_another_tensor_is_refused_and_nothing_written() -> None:
    call = CALLS["paged_decode"]()
    q = call["q"]
    assert isinstance(q, torch.Tensor)
    before = q.clone()
    call["lse"] = q.flatten()[:8].view(2, 4)
    with pytest.raises(InvalidArgumentError, match="lse is overlapping q in memory"):
        ops.paged_decode(**call)  # type: ignore[arg-type]
    assert torch.equal(q, before)


@pytest.mark.parametrize("dtype", [torch.int32, "float16", float])
def test_gather_refuses_other_types(dtype: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"dtype is .+ but must be one of"):
        ops.gather_kv(**CALLS["gather_kv"](), dtype=dtype)  # type: ignore[arg-type]


def test_copy_blocks_takes_a_list() -> None:
    call = CALLS["copy_blocks"]() | {"caches": torch.ones(6, 4, 2, 8)}
    with pytest.raises(InvalidArgumentError, match="caches is Tensor, but must be a list"):
        ops.copy_blocks(**call)  # type: ignore[arg-type]


def test_refuses_tensors_without_strides() -> None:
    call = CALLS["prefix_prefill"]()
    query = call["q"]
    assert isinstance(query, torch.Tensor)
    message = "the layout of q is torch.sparse_coo, but must be torch.strided"
    with pytest.raises(InvalidArgumentError, match=message):
        ops.prefix_prefill(**{**call, "q": query.to_sparse()})


@pytest.mark.parametrize(
    ("operator", "table"),
    [
        ("paged_decode", "block_table"),
        ("paged_decode", "seq_lens"),
        ("prefix_prefill", "cu_seqlens_q"),
        ("ragged_prefill", "kv_indices"),
    ],
)
def test_refuses_to_write_over_what_it_reads(operator: str, table: str) -> None:
    """A kernel would follow indices that it has overwritten."""
    call = CALLS[operator]()
    lse, indices = call["lse"], call[table]
    assert isinstance(lse, torch.Tensor)
    assert isinstance(indices, torch.Tensor)
    memory = torch.zeros(256)
    over = memory[: lse.numel()].view(lse.shape)
    aliased = memory.view(torch.int32)[: indices.numel()].view(indices.shape)
    aliased.copy_(indices)
    with pytest.raises(InvalidArgumentError, match=f"lse is overlapping {table} in memory"):
        getattr(ops, operator)(**{**call, "lse": over, table: aliased})
    assert torch.equal(aliased, indices.int())


def test_refuses_views_that_stand_for_their_negative() -> None:
    call = CALLS["paged_decode"]()
    negative = torch._neg_view(call["q"])
    with pytest.raises(InvalidArgumentError, match="q is a view that stands for its negative"):
        ops.paged_decode(**{**call, "q": negative})


def test_refuses_sparse_scales() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the layout of k_scale is torch\.sparse_coo"):
        ops.paged_decode(**{**CALLS["paged_decode"](), "k_scale": torch.ones(1).to_sparse()})


def test_lengths_are_compared_in_64_bits() -> None:
    """A table with room for 2^31 keys takes short int32 lengths, and none past the longest allowed."""
    cache = torch.zeros(1, 256, 1, 8)
    table = torch.zeros(1, 1, dtype=torch.int32).expand(1, 1 << 23)
    out = ops.paged_decode(torch.ones(1, 1, 8), cache, cache, table, torch.tensor([8], dtype=torch.int32))
    assert isinstance(out, torch.Tensor)
    with pytest.raises(
        InvalidArgumentError, match=r"seq_lens\[0\] is 2147483653, but must be 0 to 1073741824"
    ):
        ops.paged_decode(torch.ones(1, 1, 8), cache, cache, table, torch.tensor([2**31 + 5]))
