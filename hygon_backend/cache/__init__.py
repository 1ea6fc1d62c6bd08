"""Which tokens' keys and values lie where in a KV pool: a radix tree and a block manager.

Both are native code (`csrc/cache`); the classes here name, type and document it. Neither touches the pool
itself: they say which slots to read, which pages to copy and which are free.
"""

from hygon_backend.cache.block_manager import BlockManager
from hygon_backend.cache.errors import IllegalStateError, OutOfBlocksError, UnknownIdError
from hygon_backend.cache.radix_cache import EvictResult, InsertResult, MatchResult, RadixCache

__all__ = [
    "BlockManager",
    "EvictResult",
    "IllegalStateError",
    "InsertResult",
    "MatchResult",
    "OutOfBlocksError",
    "RadixCache",
    "UnknownIdError",
]
