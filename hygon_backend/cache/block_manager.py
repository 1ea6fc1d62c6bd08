"""BlockManager: lends the blocks of a KV pool to sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hygon_backend.cache.tokens import lendable
from hygon_backend.errors import reject

if TYPE_CHECKING:
    from hygon_backend.cache.tokens import Int64s


class BlockManager:
    """Free list, reference counts, forks, copy on write and reuse of computed blocks (document section 1.2).

    Bad arguments raise InvalidArgumentError, unknown sequences UnknownIdError, too few free blocks
    OutOfBlocksError; whatever raises changes nothing.

    Args:
        num_blocks: blocks of the pool.
        block_size: tokens of a block.
        hash_seed: 128 bits that key the hashes of computed blocks. Leave it out unless two processes must
            agree: it is then drawn from the system, so that nobody can prepare tokens that collide.
    """

    def __init__(self, num_blocks: int, block_size: int, hash_seed: int | None = None) -> None:
        from hygon_backend import _C

        if hash_seed is not None and not 0 <= hash_seed < 1 << 128:
            raise reject("hash_seed", hash_seed, "None or in [0, 2^128)")
        key = None if hash_seed is None else [hash_seed & (1 << 64) - 1, hash_seed >> 64]
        self._manager = _C.BlockManager(num_blocks, block_size, key)

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool."""
        return self._manager.num_blocks

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self._manager.block_size

    def num_free_blocks(self) -> int:
        """Blocks that no sequence has, including those whose tokens can still be found."""
        return self._manager.num_free_blocks()

    def num_sequences(self) -> int:
        """Sequences that have blocks."""
        return self._manager.num_sequences()

    def can_allocate(self, num_tokens: int) -> bool:
        """Tells whether a new sequence of so many tokens would find blocks, reusing none."""
        return self._manager.can_allocate(num_tokens)

    def find_prefix(self, tokens: Int64s) -> int:
        """Number of leading tokens that `allocate` would find computed."""
        return self._manager.find_prefix(lendable(tokens))

    def allocate(self, seq_id: int, tokens: Int64s) -> int:
        """Lends blocks to a new sequence, as far as possible computed ones that hold its first tokens.

        Returns the number of tokens that need not be computed: a multiple of the block size, and less than
        all, since the last token's output is wanted.
        """
        return self._manager.allocate(seq_id, lendable(tokens))

    def fork(self, parent_id: int, child_id: int) -> None:
        """Makes a new sequence that shares all blocks of another. Nothing is copied."""
        self._manager.fork(parent_id, child_id)

    def append_slots(self, seq_id: int, tokens: Int64s) -> list[tuple[int, int]]:
        """Appends tokens to a sequence.

        Returns (source, destination) blocks to copy before the tokens' keys and values are written: one pair
        if the last block has room but is shared, otherwise none.
        """
        return self._manager.append_slots(seq_id, lendable(tokens))

    def mark_computed(self, seq_id: int, num_tokens: int) -> None:
        """Declares the first `num_tokens` of a sequence computed: whole blocks of them can be reused."""
        self._manager.mark_computed(seq_id, num_tokens)

    def free(self, seq_id: int) -> None:
        """Takes the blocks of a sequence back; what was computed can be found until they are lent again."""
        self._manager.free(seq_id)

    def block_table(self, seq_id: int) -> list[int]:
        """A copy of a sequence's blocks, in order."""
        return self._manager.block_table(seq_id)

    def num_tokens(self, seq_id: int) -> int:
        """Length of a sequence."""
        return self._manager.num_tokens(seq_id)

    def ref_count(self, block: int) -> int:
        """Number of sequences that have a block."""
        return self._manager.ref_count(block)
