"""Paged-attention operators, KV-cache layouts and engine plugins for Hygon DCU cards.

The package imports torch and nothing else: the engine adapters, `hygon_backend.vllm_plugin` and
`hygon_backend.sglang_plugin`, are imported by their engine's plugin loader only.
"""

from hygon_backend.errors import HygonBackendError, InvalidArgumentError, UnsupportedError
from hygon_backend.kv_layout import CacheGeometry, KVLayout
from hygon_backend.ops import (
    copy_blocks,
    gather_kv,
    merge_states,
    paged_decode,
    prefix_prefill,
    ragged_prefill,
    write_kv,
)

__version__ = "0.1.0"

__all__ = [
    "CacheGeometry",
    "HygonBackendError",
    "InvalidArgumentError",
    "KVLayout",
    "UnsupportedError",
    "__version__",
    "copy_blocks",
    "gather_kv",
    "merge_states",
    "paged_decode",
    "prefix_prefill",
    "ragged_prefill",
    "write_kv",
]
