"""Refuses server options that our platform cannot serve, before any process or model is started."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sglang.srt.environ import envs

from hygon_backend.errors import UnsupportedError
from hygon_backend.kv_layout import MAX_BLOCK_SIZE
from hygon_backend.sglang_plugin.registration import BACKEND_NAME
from hygon_backend.validation import partition_size

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

HND_REFUSAL = (
    f"SGLANG_USE_HND_KVCACHE asks for head-major pages, but '{BACKEND_NAME}' reads token-major (bshd) pages: "
    "unset it"
)


def check_options(server_args: ServerArgs) -> None:
    """Refuses what the platform lacks.

    Raises:
        UnsupportedError: an option asks for it.
        InvalidArgumentError: PA_PARTITION_SIZE has a bad value.
    """
    partition_size(None)
    if envs.SGLANG_USE_HND_KVCACHE.get():
        raise UnsupportedError(HND_REFUSAL)
    if server_args.speculative_algorithm is not None and not speculation_is_possible():
        raise UnsupportedError(
            f"speculative_algorithm is {server_args.speculative_algorithm}, but hygon_backend's CPU platform "
            "has none without sgl-kernel, which holds SGLang's tree kernels"
        )
    page_size = server_args.page_size
    if page_size is not None and not 1 <= page_size <= MAX_BLOCK_SIZE:
        raise UnsupportedError(explain_page_size(page_size))


def explain_page_size(page_size: int) -> str:
    """The sentence that refuses a page size."""
    return f"page_size is {page_size}, but '{BACKEND_NAME}' supports 1 to {MAX_BLOCK_SIZE} tokens"


def speculation_is_possible() -> bool:
    """Whether SGLang's tree kernels are installed: they have no PyTorch form."""
    return find_spec("sgl_kernel") is not None
