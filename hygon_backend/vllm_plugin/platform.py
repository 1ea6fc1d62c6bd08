"""The vLLM platform for machines without a card: stock CPU engine, our attention."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum

from hygon_backend.errors import UnsupportedError
from hygon_backend.validation import partition_size
from hygon_backend.vllm_plugin import shims
from hygon_backend.vllm_plugin.registration import BACKEND_NAME, BACKEND_PATH, register

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

STOCK_WORKER = "vllm.v1.worker.cpu_worker.CPUWorker"
WORKER = "hygon_backend.vllm_plugin.worker.HygonCpuWorker"


class HygonCpuPlatform(CpuPlatform):
    """Runs a vLLM without any compiled extension (`VLLM_TARGET_DEVICE=empty`) on the CPU.

    Registered as an out-of-tree platform: vLLM then takes the pure PyTorch form of its own layers
    instead of the CPU build's extension, which is not installed.
    """

    _enum = PlatformEnum.OOT

    def __init__(self) -> None:
        # vLLM makes one platform object in each of its processes, workers or not.
        shims.skip_cache_release()

    @classmethod
    def import_kernels(cls) -> None:
        """Imports nothing: an empty build has no compiled kernels."""

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Replaces the one Triton kernel on vLLM's main path, so that Triton is not needed."""
        shims.override_triton_kernels()

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        """Applies the stock CPU settings, then puts our worker in the stock worker's place."""
        check_layout_request(os.environ.get("VLLM_KV_CACHE_LAYOUT"))
        check_features(vllm_config)
        partition_size(None)  # PA_PARTITION_SIZE: a bad value must not wait for the first request
        super().check_and_update_config(vllm_config)
        drop_own_name(vllm_config)
        if vllm_config.parallel_config.worker_cls == STOCK_WORKER:
            vllm_config.parallel_config.worker_cls = WORKER

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Returns our backend, or refuses in one sentence what it cannot run."""
        # Imported here: it reaches into vLLM modules that ask for the platform while being imported.
        from hygon_backend.vllm_plugin.support import explain

        register()
        name = None if selected_backend is None else selected_backend.name
        if name not in (None, BACKEND_NAME):
            raise UnsupportedError(
                f"attention backend {name} is not available on hygon_backend's CPU platform: use "
                f"{BACKEND_NAME}, or leave --attention-backend out"
            )
        sentence = explain(attn_selector_config)
        if sentence is not None:
            raise UnsupportedError(sentence)
        return BACKEND_PATH


def check_layout_request(requested: str | None) -> None:
    """Refuses head-major pages.

    vLLM reads HND as an alias of its LBHNC layout. Our backend puts K and V where LBHNC has heads,
    so the alias would be accepted and quietly mean something else than what was asked for.
    """
    if requested is not None and requested.upper() == "HND":
        raise UnsupportedError(
            f"VLLM_KV_CACHE_LAYOUT={requested} asks for head-major pages, but {BACKEND_NAME} stores "
            "token-major (bshd) pages: unset it, or choose LHBNC (the default) or NHD"
        )


def check_features(vllm_config: VllmConfig) -> None:
    """Refuses features whose vLLM code needs Triton or compiled kernels that an empty build lacks."""
    platform = "hygon_backend's CPU platform"
    if vllm_config.speculative_config is not None:
        raise UnsupportedError(f"speculative decoding is not supported on {platform}: it needs Triton")
    model = vllm_config.model_config
    if model is None:
        return
    if model.is_hybrid or model.is_attention_free:
        raise UnsupportedError(f"models with state-space layers are not supported on {platform}")
    if vllm_config.use_v2_model_runner:
        raise UnsupportedError(
            f"vLLM's V2 model runner is not supported on {platform}, it needs Triton on a card: set "
            "VLLM_USE_V2_MODEL_RUNNER=0"
        )


def drop_own_name(vllm_config: VllmConfig) -> None:
    """Turns an explicit HYGON_ATTN into "the platform's choice", which is the same thing here.

    The configuration is pickled into the engine process, and the member we add to vLLM's enum does
    not exist there yet when it is unpickled: vLLM loads plugins later.
    """
    backend = vllm_config.attention_config.backend
    if backend is not None and backend.name == BACKEND_NAME:
        vllm_config.attention_config.backend = None
