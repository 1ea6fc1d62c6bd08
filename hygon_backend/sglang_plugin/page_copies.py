"""Copies pages of SGLang's KV pool in the order of its forward passes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from hygon_backend import ops

if TYPE_CHECKING:
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool


class PageCopies:
    """Copies whole pages of all layers' keys and values within a pool.

    Args:
        pool: the pool.
        page_size: tokens of a page.
        forward_stream: the stream on which the engine computes. What a page holds was written there, by a
            forward pass that may still be running, so copies must queue behind it; None on the CPU.
    """

    def __init__(self, pool: MHATokenToKVPool, page_size: int, forward_stream: torch.Stream | None) -> None:
        self._pool = pool
        self._page_size = page_size
        self._stream = forward_stream

    def copy(self, source: int, destination: int) -> None:
        """Copies page `source` to page `destination`."""
        caches = [
            buffer.view(-1, self._page_size, *buffer.shape[1:])
            for buffer in (*self._pool.k_buffer, *self._pool.v_buffer)
        ]
        with self._in_order(caches[0].device):
            mapping = torch.tensor([[source, destination]], dtype=torch.int64).to(caches[0].device)
            ops.copy_blocks(caches, mapping)

    def _in_order(self, device: torch.device) -> contextlib.AbstractContextManager[Any]:
        if self._stream is None or device.type == "cpu":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = torch.get_device_module(device).stream(self._stream)
        return context
