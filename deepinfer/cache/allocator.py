"""Owns which cache blocks are free. Knows no tensors, sequences or policy.

A block is an index below `block_count`. Allocating and freeing cost O(1) per block.
"""

from __future__ import annotations

from collections.abc import Iterable


class BlockAllocator:
    """Free list of `block_count` blocks."""

    def __init__(self, block_count: int) -> None:
        self.block_count = block_count
        self._free = list(range(block_count - 1, -1, -1))
        self._used = bytearray(block_count)

    @property
    def free_count(self) -> int:
        """Number of free blocks."""
        return len(self._free)

    @property
    def used_count(self) -> int:
        """Number of allocated blocks."""
        return self.block_count - len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks. Raises ValueError, and takes none, when fewer are free."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free")
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._used[block] = True
        return blocks

    def free(self, blocks: Iterable[int]) -> None:
        """Give blocks back. Raises ValueError for a block that is not allocated."""
        for block in blocks:
            if not self._used[block]:
                raise ValueError(f"block {block} is free already")
            self._used[block] = False
            self._free.append(block)

    def check_integrity(self) -> None:
        """Raise AssertionError unless every block is either free once or used."""
        assert len(set(self._free)) == len(self._free), "a block is free twice"
        assert not any(self._used[block] for block in self._free), "a free block is marked as used"
        assert sum(self._used) == self.used_count, "a block is neither free nor used"
