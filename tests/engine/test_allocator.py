"""The block allocator: no block is lent twice or lost."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deepinfer.cache.allocator import BlockAllocator

BLOCK_COUNT = 12


class AllocatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.allocator = BlockAllocator(BLOCK_COUNT)
        self.held: list[int] = []

    @rule(count=st.integers(0, BLOCK_COUNT + 1))
    def allocate(self, count: int) -> None:
        if count > self.allocator.free_count:
            with pytest.raises(ValueError, match="blocks wanted"):
                self.allocator.allocate(count)
        else:
            blocks = self.allocator.allocate(count)
            assert len(set(blocks)) == count
            assert not set(blocks) & set(self.held)
            self.held += blocks

    @rule(count=st.integers(0, BLOCK_COUNT))
    def free(self, count: int) -> None:
        self.allocator.free(self.held[:count])
        del self.held[:count]

    @invariant()
    def is_sound(self) -> None:
        self.allocator.check_integrity()
        assert self.allocator.used_count == len(self.held)
        assert self.allocator.free_count == BLOCK_COUNT - len(self.held)


TestAllocator = AllocatorMachine.TestCase


def test_freeing_a_free_block_is_an_error() -> None:
    allocator = BlockAllocator(2)
    [block] = allocator.allocate(1)
    allocator.free([block])
    with pytest.raises(ValueError, match="is free already"):
        allocator.free([block])
    allocator.check_integrity()
