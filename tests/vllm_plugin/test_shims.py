"""The stand-ins for what an empty vLLM build lacks."""

from __future__ import annotations

import random

import pytest
import torch

from hygon_backend.vllm_plugin import shims


def test_slot_mapping_equals_the_definition() -> None:
    generator = random.Random(7)
    for _ in range(50):
        block_size = generator.choice([1, 8, 16, 64])
        starts = [generator.randrange(0, 90) for _ in range(generator.randrange(1, 6))]
        lens = [generator.choice([0, 1, 1, 5, 33]) for _ in starts]
        offsets = torch.tensor([0, *lens]).cumsum(0).int()
        # vLLM pads the offsets of a padded batch with repeats of the last one.
        padded = torch.cat([offsets, offsets[-1:].repeat(generator.randrange(0, 3))])
        table = torch.randint(0, 1000, (8, 130), dtype=torch.int32)
        positions = torch.cat(
            [torch.arange(s, s + n) for s, n in zip(starts, lens, strict=True)] + [torch.zeros(3)]
        )
        slots = torch.full((256,), 12345)
        total = sum(lens)
        shims.compute_slot_mapping(
            total,
            256,
            padded,
            positions.long(),
            table,
            table.stride(0),
            slots,
            KV_CACHE_BLOCK_SIZE=block_size,
        )
        expected = [
            int(table[row, (start + i) // block_size]) * block_size + (start + i) % block_size
            for row, (start, n) in enumerate(zip(starts, lens, strict=True))
            for i in range(n)
        ]
        assert slots[:total].tolist() == expected
        assert (slots[total:] == -1).all(), "slots without a token must not keep old values"


def test_slot_mapping_refuses_context_parallelism() -> None:
    one = torch.zeros(1, dtype=torch.long)
    with pytest.raises(NotImplementedError, match="TOTAL_CP_WORLD_SIZE is 2, but must be 1"):
        shims.compute_slot_mapping(1, 1, one, one, one[None], 1, one, 16, TOTAL_CP_WORLD_SIZE=2)


def test_parameters_match_the_kernel_they_replace() -> None:
    """vLLM passes launch arguments by the Triton kernel's order; a changed kernel must not go unnoticed."""
    import inspect

    from vllm.v1.worker.block_table import ComputeSlotMappingKernel

    kernel = ComputeSlotMappingKernel.kernel
    names = getattr(kernel, "arg_names", None) or list(
        inspect.signature(getattr(kernel, "func", kernel)).parameters
    )
    ours = list(inspect.signature(shims.compute_slot_mapping).parameters)
    assert [name.removesuffix("_ptr") for name in names] == ours


def test_memory_binding_is_defined_once_and_does_nothing() -> None:
    shims.define_memory_binding()
    shims.define_memory_binding()
    assert torch.ops._C.init_cpu_memory_env([0]) is None


def test_host_cache_release_is_harmless_without_an_accelerator() -> None:
    shims.skip_cache_release()
    if not torch.accelerator.is_available():
        torch.accelerator.empty_cache()
        torch.accelerator.empty_host_cache()
