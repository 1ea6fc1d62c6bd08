"""Makes the attention backend known to vLLM under its name."""

from __future__ import annotations

import logging
import os

from hygon_backend.vllm_plugin.version_gate import installed_version, refusal

BACKEND_NAME = "HYGON_ATTN"
BACKEND_PATH = "hygon_backend.vllm_plugin.attention.HygonAttentionBackend"


def register() -> None:
    """Registers the backend; harmless when repeated, silent no-op on an unsupported vLLM.

    An unsupported version is refused loudly where our platform would run (`activation`). Here our
    platform may not be in use at all, so an engine that works without us must go on working.
    """
    sentence = refusal(installed_version(), os.environ)
    if sentence is not None:
        logging.getLogger("vllm.hygon_backend").warning("%s not registered: %s", BACKEND_NAME, sentence)
        return
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    if BACKEND_NAME not in AttentionBackendEnum.__members__:
        register_backend(BACKEND_NAME, BACKEND_PATH)
