"""The worker process: the stock CPU worker, minus what an empty build cannot do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from hygon_backend import counters
from hygon_backend.vllm_plugin import shims


class HygonCpuWorker(CPUWorker):
    """Stock `CPUWorker` that runs without vLLM's compiled extension."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (vLLM's signature, passed on)
        shims.define_memory_binding()
        super().__init__(*args, **kwargs)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        """No memory pool: the stock method knows the in-tree platforms only and would ask for CUDA's."""
        return nullcontext()

    def hygon_call_counters(self, reset: bool = False) -> dict[str, int]:
        """Operator calls of this worker process; reach it with `llm.collective_rpc`.

        Args:
            reset: start counting anew after reading.
        """
        calls = counters.snapshot()
        if reset:
            counters.reset()
        return calls
