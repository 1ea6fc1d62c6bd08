"""Small legal calls of every operator, as keyword arguments to be spoilt one at a time."""

from __future__ import annotations

import torch

NUM_BLOCKS, BLOCK_SIZE, HEADS_Q, HEADS_KV, HEAD_SIZE, HEAD_SIZE_V = 6, 4, 4, 2, 8, 16


def cache_pair(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """A filled `bshd` cache of 6 pages of 4 tokens, 2 heads of 8 (keys) and 16 (values)."""
    shape = (NUM_BLOCKS, BLOCK_SIZE, HEADS_KV)
    generator = torch.Generator().manual_seed(0)
    return {
        "k_cache": torch.randn(*shape, HEAD_SIZE, generator=generator).to(dtype),
        "v_cache": torch.randn(*shape, HEAD_SIZE_V, generator=generator).to(dtype),
    }


def _pages() -> dict[str, torch.Tensor]:
    return {
        "block_table": torch.tensor([[1, 2, 3], [4, -1, 99]], dtype=torch.int32),
        "seq_lens": torch.tensor([9, 3], dtype=torch.int32),
    }


def _outputs(*leading: int) -> dict[str, torch.Tensor]:
    return {
        "out": torch.full((*leading, HEADS_Q, HEAD_SIZE_V), 7.0),
        "lse": torch.full((*leading, HEADS_Q), 7.0),
    }


def paged_decode_call() -> dict[str, object]:
    """Two sequences of 9 and 3 keys."""
    return {"q": torch.ones(2, HEADS_Q, HEAD_SIZE), **cache_pair(), **_pages(), **_outputs(2)}


def prefix_prefill_call() -> dict[str, object]:
    """The same sequences, 5 new tokens in the first and 1 in the second."""
    offsets = {"cu_seqlens_q": torch.tensor([0, 5, 6], dtype=torch.int32)}
    return {"q": torch.ones(6, HEADS_Q, HEAD_SIZE), **cache_pair(), **_pages(), **offsets, **_outputs(6)}


def ragged_prefill_call() -> dict[str, object]:
    """The same once more, in slots of a pool of 24."""
    cache = {name: x.flatten(0, 1) for name, x in cache_pair().items()}
    return {
        "q": torch.ones(6, HEADS_Q, HEAD_SIZE),
        "k_buffer": cache["k_cache"],
        "v_buffer": cache["v_cache"],
        "qo_indptr": torch.tensor([0, 5, 6], dtype=torch.int32),
        "kv_indptr": torch.tensor([0, 9, 12], dtype=torch.int32),
        "kv_indices": torch.tensor([*range(4, 13), 16, 17, 18, -1], dtype=torch.int32),
        **_outputs(6),
    }


def write_kv_call() -> dict[str, object]:
    """Three tokens, the middle one skipped."""
    return {
        "k": torch.ones(3, HEADS_KV, HEAD_SIZE),
        "v": torch.ones(3, HEADS_KV, HEAD_SIZE_V),
        **cache_pair(),
        "slot_mapping": torch.tensor([0, -1, 23]),
    }


def gather_kv_call() -> dict[str, object]:
    """Both sequences."""
    return {**cache_pair(), **_pages()}


def copy_blocks_call() -> dict[str, object]:
    """Two pages of each of two caches."""
    return {"caches": list(cache_pair().values()), "block_mapping": torch.tensor([[0, 1], [2, 3]])}


def merge_states_call() -> dict[str, object]:
    """Two states of two rows and three heads."""
    return {
        "o_a": torch.ones(2, 3, 8),
        "lse_a": torch.zeros(2, 3),
        "o_b": torch.ones(2, 3, 8),
        "lse_b": torch.zeros(2, 3),
    }


CALLS = {
    "paged_decode": paged_decode_call,
    "prefix_prefill": prefix_prefill_call,
    "ragged_prefill": ragged_prefill_call,
    "write_kv": write_kv_call,
    "gather_kv": gather_kv_call,
    "copy_blocks": copy_blocks_call,
    "merge_states": merge_states_call,
}
"""A function for each operator that makes the arguments of a legal call anew."""
