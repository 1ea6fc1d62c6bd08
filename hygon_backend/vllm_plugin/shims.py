"""Stand-ins for what an empty vLLM build lacks on the CPU: the one place that reaches into vLLM.

| what | why | how | which versions | when it can go |
|---|---|---|---|---|
| `torch.ops._C.init_cpu_memory_env` | `CPUWorker.__init__` calls it unconditionally; it binds memory to a NUMA node, an optimisation | defined as a no-op when the extension did not define it | 0.33 | when CPUWorker guards the call |
| `torch.accelerator.empty_cache`, `.empty_host_cache` | engine shutdown calls them on every platform but the in-tree CPU one, and they raise on a machine without accelerators | replaced by no-ops there, as `CPUModelRunner` does in its own process | 0.33 | when the shutdown asks for an accelerator first |
| `ComputeSlotMappingKernel.kernel` | Triton, absent here; the stock fallback is a C++ operator of the CPU build, absent too | `register_kernels`, vLLM's public override table | 0.33 | when vLLM has a PyTorch fallback |
"""  # noqa: E501 (a table row cannot be broken)

from __future__ import annotations

import torch

from hygon_backend.errors import UnsupportedError

SLOT_MAPPING_KERNEL = "vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel"


def define_memory_binding() -> None:
    """Defines `torch.ops._C.init_cpu_memory_env` as a no-op, unless a real one exists."""
    if hasattr(torch.ops._C, "init_cpu_memory_env"):
        return
    torch.library.define("_C::init_cpu_memory_env", "(SymInt[] nodes) -> ()")
    torch.library.impl("_C::init_cpu_memory_env", "default", lambda nodes: None)


def skip_cache_release() -> None:
    """Makes releasing the accelerator's caches do nothing where no accelerator exists."""
    if not torch.accelerator.is_available():
        torch.accelerator.empty_cache = lambda: None
        torch.accelerator.empty_host_cache = lambda: None


def override_triton_kernels() -> None:
    """Registers PyTorch versions of the Triton kernels that a plain decoder model needs."""
    from vllm.triton_utils.dispatcher import register_kernels

    register_kernels({SLOT_MAPPING_KERNEL: compute_slot_mapping})


def compute_slot_mapping(
    num_tokens: int,
    max_num_tokens: int,
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_table_stride: int,
    slot_mapping: torch.Tensor,
    KV_CACHE_BLOCK_SIZE: int,  # noqa: N803 (vLLM passes these by the kernel's own names)
    TOTAL_CP_WORLD_SIZE: int = 1,  # noqa: N803
    TOTAL_CP_RANK: int = 0,  # noqa: N803
    CP_KV_CACHE_INTERLEAVE_SIZE: int = 1,  # noqa: N803
    PAD_ID: int = -1,  # noqa: N803
    BLOCK_SIZE: int = 1024,  # noqa: N803
) -> None:
    """Writes each new token's cache slot: `block_table[request, position // B] * B + position % B`.

    Args:
        num_tokens: tokens in the batch, padding included.
        max_num_tokens: length of `slot_mapping`.
        query_start_loc: `[num_reqs + 1]` int32, possibly padded with repeats of the last offset.
        positions: `[num_tokens]` int64.
        block_table: `[max_num_reqs, max_blocks]` int32.
        block_table_stride: unused, the tensor knows its stride.
        slot_mapping: `[max_num_tokens]` int64, written whole; slots without a token get `PAD_ID`.
        KV_CACHE_BLOCK_SIZE: tokens per page.
        TOTAL_CP_WORLD_SIZE: must be 1, context parallelism is refused earlier.
        TOTAL_CP_RANK: unused.
        CP_KV_CACHE_INTERLEAVE_SIZE: unused.
        PAD_ID: value of an unused slot.
        BLOCK_SIZE: unused, a tile size of the Triton kernel.
    """
    if TOTAL_CP_WORLD_SIZE != 1:
        raise UnsupportedError(f"TOTAL_CP_WORLD_SIZE is {TOTAL_CP_WORLD_SIZE}, but must be 1")
    total = int(query_start_loc[-1])
    query_lens = (query_start_loc[1:] - query_start_loc[:-1]).long()
    request = torch.repeat_interleave(torch.arange(query_lens.shape[0]), query_lens, output_size=total)
    position = positions[:total].long()
    block = block_table[request, position // KV_CACHE_BLOCK_SIZE].long()
    slot_mapping[:total] = block * KV_CACHE_BLOCK_SIZE + position % KV_CACHE_BLOCK_SIZE
    slot_mapping[total:max_num_tokens] = PAD_ID
