"""Owns who holds which cache blocks. Knows no tensors, sequences or policy.

A block is an index below `block_count`. It is held by sequences in flight, kept for sequences to come, both, or free.
Every operation costs O(1) per block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class BlockAllocator:
    """Free list of `block_count` blocks, and how many hold and keep each of the others."""

    def __init__(self, block_count: int) -> None:
        self.block_count: Final = block_count
        self._free = list(range(block_count - 1, -1, -1))
        self._holders = [0] * block_count
        self._keepers = [0] * block_count
        self._held_count = 0

    @property
    def free_count(self) -> int:
        """Number of free blocks."""
        return len(self._free)

    @property
    def held_count(self) -> int:
        """Number of blocks that sequences in flight hold, each counted once."""
        return self._held_count

    def allocate(self, count: int) -> list[int]:
        """Take `count` free blocks. Raises ValueError, and takes none, when fewer are free."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free")
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._holders[block] = 1
        self._held_count += count
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Hold blocks that are held or kept already. Raises ValueError for a free one."""
        for block in blocks:
            self._check_in_use(block)
            self._held_count += self._holders[block] == 0
            self._holders[block] += 1

    def free(self, blocks: Iterable[int]) -> None:
        """Let go of blocks that were allocated or shared. Raises ValueError for a block that is not held."""
        for block in blocks:
            if self._holders[block] == 0:
                raise ValueError(f"block {block} is not held")
            self._holders[block] -= 1
            self._held_count -= self._holders[block] == 0
            self._reclaim(block)

    def keep(self, blocks: Iterable[int]) -> None:
        """Keep blocks beyond their holders. Raises ValueError for a free one."""
        for block in blocks:
            self._check_in_use(block)
            self._keepers[block] += 1

    def drop(self, blocks: Iterable[int]) -> None:
        """Undo one `keep`. Raises ValueError for a block that is not kept."""
        for block in blocks:
            if self._keepers[block] == 0:
                raise ValueError(f"block {block} is not kept")
            self._keepers[block] -= 1
            self._reclaim(block)

    def check_integrity(self) -> None:
        """Raise AssertionError unless every block is either free once or in use."""
        assert len(set(self._free)) == len(self._free), "a block is free twice"
        in_use = [block for block in range(self.block_count) if self._holders[block] or self._keepers[block]]
        assert set(in_use).isdisjoint(self._free), "a block in use is free"
        assert len(in_use) + len(self._free) == self.block_count, "a block is neither free nor in use"
        assert sum(map(bool, self._holders)) == self._held_count, "the count of held blocks is wrong"

    def _check_in_use(self, block: int) -> None:
        if not self._holders[block] and not self._keepers[block]:
            raise ValueError(f"block {block} is free")

    def _reclaim(self, block: int) -> None:
        if not self._holders[block] and not self._keepers[block]:
            self._free.append(block)
