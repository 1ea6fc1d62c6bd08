"""Makes the attention backend known to SGLang under its name, or ends the process.

SGLang logs what a plugin raises and goes on. A server whose user never named a backend would then
serve with another one, so every failure here becomes a `SystemExit`, which SGLang lets through.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from hygon_backend import counters, native
from hygon_backend.engine_gate import UnsupportedEngineError
from hygon_backend.sglang_plugin.version_gate import installed_version, refusal

if TYPE_CHECKING:
    from sglang.srt.managers.io_struct import GetInternalStateReqOutput
    from sglang.srt.mem_cache.base_prefix_cache import BasePrefixCache
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext
    from sglang.srt.model_executor.model_runner import ModelRunner

    from hygon_backend.sglang_plugin.attention import HygonAttentionBackend

BACKEND_NAME = "hygon"

INTERNAL_STATE = (
    "sglang.srt.managers.scheduler_components.internal_state.SchedulerInternalStateController"
    ".get_internal_state"
)
"""What a scheduler answers when asked for its state, hooked through SGLang's plugin interface."""


def register_or_exit() -> None:
    """Registers the backend; harmless when repeated, does nothing on an unsupported SGLang.

    An unsupported version is refused loudly where our platform would run (`activation`). Elsewhere an
    engine that works without us must go on working; `--attention-backend hygon` is then an unknown
    choice, which SGLang itself refuses.

    Raises:
        UnsupportedEngineError: SGLang is supported, but registering failed.
    """
    sentence = refusal(installed_version(), os.environ)
    if sentence is not None:
        logging.getLogger("sglang.hygon_backend").warning("%s not registered: %s", BACKEND_NAME, sentence)
        return
    check_native_module()
    try:
        _register()
    except Exception as error:
        raise UnsupportedEngineError(
            f"hygon_backend could not register its attention backend '{BACKEND_NAME}' with SGLang "
            f"{installed_version()}: {type(error).__name__}: {error}"
        ) from error


def check_native_module() -> None:
    """Ends the process when the extension module is missing or does not load.

    The CPU does not use its kernels, but an installation with a broken one is not what the user thinks
    it is. `HYGON_BACKEND_TORCH_PATH=1` says that PyTorch shall serve, so nothing is checked then.

    Raises:
        UnsupportedEngineError: it cannot be loaded.
    """
    if os.environ.get(native.TORCH_PATH_VARIABLE) == "1":
        return
    try:
        native.build_info()
    except ImportError as error:
        raise UnsupportedEngineError(
            f"hygon_backend refuses to serve: {error}; {native.TORCH_PATH_VARIABLE}=1 asks for PyTorch "
            "operators instead of the extension's"
        ) from error


def require_registered() -> None:
    """Ends the process when SGLang does not know the backend.

    Our platform asks this: `SGLANG_PLUGINS` can leave our plugin out while our platform is in use.

    Raises:
        UnsupportedEngineError: the backend is not registered.
    """
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

    if ATTENTION_BACKENDS.get(BACKEND_NAME) is not create_backend:
        raise UnsupportedEngineError(
            f"hygon_backend's platform is active, but its plugin did not register the attention backend "
            f"'{BACKEND_NAME}': let SGLANG_PLUGINS name {BACKEND_NAME} as well, or unset it"
        )


def create_backend(runner: ModelRunner) -> HygonAttentionBackend:
    """Makes the backend of a model runner; SGLang calls this where the flag names us."""
    from hygon_backend.sglang_plugin.attention import HygonAttentionBackend

    return HygonAttentionBackend(runner)


def create_radix_cache(context: TreeCacheBuildContext) -> BasePrefixCache:
    """Makes the prefix cache of a scheduler; SGLang calls this where the flag names us."""
    from hygon_backend.sglang_plugin import radix

    return radix.create_radix_cache(context)


def _register() -> None:
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    from sglang.srt.mem_cache.registry import get_radix_cache_factory, register_radix_cache_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if BACKEND_NAME not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([BACKEND_NAME])
    register_attention_backend(BACKEND_NAME)(create_backend)
    if get_radix_cache_factory(BACKEND_NAME) is None:
        register_radix_cache_backend(BACKEND_NAME, create_radix_cache)
    HookRegistry.register(INTERNAL_STATE, add_counters, HookType.AFTER)


def add_counters(answer: GetInternalStateReqOutput, *_: object) -> None:
    """Adds this process's operator calls to what SGLang tells about a scheduler (`/server_info`)."""
    answer.internal_state["hygon_backend_calls"] = counters.snapshot()
