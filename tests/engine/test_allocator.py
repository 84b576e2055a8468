"""The block allocator: no block is lent twice or lost, however it is shared and kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deepinfer.cache.allocator import BlockAllocator

BLOCK_COUNT = 12
BLOCKS = st.lists(st.integers(0, BLOCK_COUNT - 1), unique=True)


class AllocatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.allocator = BlockAllocator(BLOCK_COUNT)
        self.held: Counter[int] = Counter()
        self.kept: Counter[int] = Counter()

    @property
    def in_use(self) -> set[int]:
        return set(+self.held) | set(+self.kept)

    @rule(count=st.integers(0, BLOCK_COUNT + 1))
    def allocate(self, count: int) -> None:
        if count > self.allocator.free_count:
            with pytest.raises(ValueError, match="blocks wanted"):
                self.allocator.allocate(count)
        else:
            blocks = self.allocator.allocate(count)
            assert len(set(blocks)) == count
            assert not set(blocks) & self.in_use
            self.held.update(blocks)

    @rule(blocks=BLOCKS)
    def share(self, blocks: list[int]) -> None:
        blocks = [block for block in blocks if block in self.in_use]
        self.allocator.share(blocks)
        self.held.update(blocks)

    @rule(blocks=BLOCKS)
    def free(self, blocks: list[int]) -> None:
        blocks = [block for block in blocks if self.held[block]]
        self.allocator.free(blocks)
        self.held.subtract(blocks)

    @rule(blocks=BLOCKS)
    def keep(self, blocks: list[int]) -> None:
        blocks = [block for block in blocks if block in self.in_use]
        self.allocator.keep(blocks)
        self.kept.update(blocks)

    @rule(blocks=BLOCKS)
    def drop(self, blocks: list[int]) -> None:
        blocks = [block for block in blocks if self.kept[block]]
        self.allocator.drop(blocks)
        self.kept.subtract(blocks)

    @invariant()
    def is_sound(self) -> None:
        self.allocator.check_integrity()
        assert self.allocator.held_count == len(+self.held)
        assert self.allocator.free_count == BLOCK_COUNT - len(self.in_use)


TestAllocator = AllocatorMachine.TestCase


def test_a_free_block_can_only_be_allocated() -> None:
    allocator = BlockAllocator(2)
    [block] = allocator.allocate(1)
    allocator.free([block])
    for misuse, message in (
        (allocator.free, "is not held"),
        (allocator.share, "is free"),
        (allocator.keep, "is free"),
        (allocator.drop, "is not kept"),
    ):
        with pytest.raises(ValueError, match=message):
            misuse([block])
    allocator.check_integrity()
    assert allocator.free_count == 2
