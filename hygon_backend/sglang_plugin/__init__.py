"""SGLang adapter: a platform and an attention backend, found by SGLang through entry points.

This module is imported by SGLang's plugin loader while SGLang itself is being imported, so it imports
nothing heavy.
"""

from __future__ import annotations


def activate_platform() -> str | None:
    """Entry point of `sglang.srt.platforms`: the platform class to use, None to stay out."""
    from hygon_backend.sglang_plugin.activation import activate

    return activate()


def register_backend() -> None:
    """Entry point of `sglang.srt.plugins`: makes `--attention-backend hygon` known."""
    from hygon_backend.sglang_plugin.registration import register_or_exit

    register_or_exit()
