"""The SGLang platform for machines without a card: stock SGLang on the CPU, our attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

from hygon_backend.sglang_plugin.options import check_options, speculation_is_possible
from hygon_backend.sglang_plugin.registration import BACKEND_NAME, require_registered

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

SGLANG_CPU_DEFAULT = "intel_amx"


class HygonCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """Runs SGLang on the CPU without sgl-kernel: SGLang takes its PyTorch forms everywhere.

    Registered as an out-of-tree platform, since the in-tree CPU platform asks for the CPU build of
    sgl-kernel.
    """

    _enum = PlatformEnum.OOT
    device_name = "hygon_cpu"
    device_type = "cpu"
    capabilities = PlatformCapabilities(supports_triton=False)

    def get_default_attention_backend(self) -> str:
        """Name of our backend."""
        return BACKEND_NAME

    def get_device(self, device_id: int = 0) -> str:
        """SGLang's default for --device, which it treats as text."""
        return "cpu"

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The CPU, whatever the rank."""
        return torch.device("cpu")

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        """Only with sgl-kernel: SGLang's tree kernels have no PyTorch form."""
        return speculation_is_possible()

    def apply_server_args_defaults(self, server_args: ServerArgs) -> None:
        """Chooses what the user left open and refuses what this platform cannot do.

        SGLang has put its own default for a CPU in by then, one for Intel's matrix unit that needs
        sgl-kernel and would be replaced by PyTorch's attention.

        Raises:
            UnsupportedError: an option asks for what this platform lacks.
        """
        require_registered()
        if server_args.attention_backend in (None, SGLANG_CPU_DEFAULT):
            server_args.attention_backend = BACKEND_NAME
        check_options(server_args)
