"""vLLM adapter: a platform and an attention backend, found by vLLM through entry points.

This module is imported by vLLM's plugin loader in every process, before vLLM knows its platform, so
it imports nothing heavy.
"""

from __future__ import annotations


def register_platform() -> str | None:
    """Entry point of `vllm.platform_plugins`: the platform class to use, None to stay out."""
    from hygon_backend.vllm_plugin.activation import activate

    return activate()


def register_backend() -> None:
    """Entry point of `vllm.general_plugins`: makes `--attention-backend HYGON_ATTN` known."""
    from hygon_backend.vllm_plugin.registration import register

    register()
