"""Owns who runs in the next step, queue membership and block tables; the only caller of the block allocator.

Knows nothing of tensors, sampling or text. A step costs O(running sequences), whatever their lengths.

Policy: first come, first served. A sequence is admitted when blocks for all tokens it has are free, so a prompt split
over steps never stops half way. One that needs a block when none is free takes those of the youngest running sequence,
which goes back to the head of the queue and computes its keys and values again. The oldest is never the victim while
others run, and the cache holds at least one full context, so every step makes progress.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens `start` to `stop` of a sequence, to be run in this step."""

    sequence: Sequence
    start: int
    stop: int

    @property
    def samples(self) -> bool:
        """True when the chunk ends at the last known token, so that the next one can be sampled."""
        return self.stop == len(self.sequence.token_ids)


class Scheduler:
    """Queues of one engine. Every running sequence is older than every waiting one."""

    def __init__(
        self, allocator: BlockAllocator, *, block_size: int, max_step_tokens: int, max_running_sequences: int
    ) -> None:
        self._allocator = allocator
        self._block_size = block_size
        self._max_step_tokens = max_step_tokens
        self._max_running_sequences = max_running_sequences
        self._running: list[Sequence] = []
        self._waiting: deque[Sequence] = deque()

    @property
    def running_count(self) -> int:
        """Sequences that hold blocks."""
        return len(self._running)

    @property
    def waiting_count(self) -> int:
        """Sequences that hold none yet, or none any more."""
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, finished or not, and free its blocks. Raises ValueError for one that is not queued."""
        if sequence in self._running:
            self._running.remove(sequence)
            self._release(sequence)
        else:
            self._waiting.remove(sequence)

    def schedule(self) -> list[Chunk]:
        """Choose the chunks of the next step and count them as computed. Empty only when nothing is queued."""
        self._grow_running()
        # Decoding sequences come first: they need one token each, and a long prompt must not hold them up.
        order = sorted(self._running, key=lambda sequence: sequence.pending_count > 1)
        budget = self._max_step_tokens
        chunks: list[Chunk] = []
        for sequence in order:
            budget -= self._take(sequence, budget, chunks)
        while budget > 0 and self._waiting and self._admits(self._waiting[0]):
            sequence = self._waiting.popleft()
            self._running.append(sequence)
            sequence.blocks = self._allocator.allocate(self._missing_blocks(sequence))
            budget -= self._take(sequence, budget, chunks)
        return chunks

    def check_integrity(self) -> None:
        """Raise AssertionError unless queues, block tables and allocator agree."""
        self._allocator.check_integrity()
        held = [block for sequence in self._running for block in sequence.blocks]
        assert len(set(held)) == len(held), "a block belongs to two sequences"
        assert len(held) == self._allocator.used_count, "a block is allocated but belongs to no running sequence"
        assert len(self._running) <= self._max_running_sequences, "too many sequences run"
        for sequence in self._running:
            assert 0 <= sequence.computed_count <= len(sequence.blocks) * self._block_size, "state outside the blocks"
        for sequence in self._waiting:
            assert not sequence.blocks, "a waiting sequence holds blocks"
            assert sequence.computed_count == 0, "a waiting sequence claims computed state"

    @staticmethod
    def _take(sequence: Sequence, budget: int, chunks: list[Chunk]) -> int:
        count = min(sequence.pending_count, budget)
        if count > 0:
            start = sequence.computed_count
            chunks.append(Chunk(sequence=sequence, start=start, stop=start + count))
            sequence.computed_count += count
        return count

    def _admits(self, sequence: Sequence) -> bool:
        # One spare block per running sequence keeps a newcomer from being preempted in the very next steps.
        wanted = self._missing_blocks(sequence) + len(self._running)
        return len(self._running) < self._max_running_sequences and wanted <= self._allocator.free_count

    def _missing_blocks(self, sequence: Sequence) -> int:
        return -(-len(sequence.token_ids) // self._block_size) - len(sequence.blocks)

    def _grow_running(self) -> None:
        index = 0
        while index < len(self._running):
            sequence = self._running[index]
            missing = self._missing_blocks(sequence)
            if missing <= self._allocator.free_count:
                sequence.blocks += self._allocator.allocate(missing)
                index += 1
            else:
                self._preempt(self._running[-1])

    def _preempt(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._release(sequence)
        self._waiting.appendleft(sequence)

    def _release(self, sequence: Sequence) -> None:
        self._allocator.free(sequence.blocks)
        sequence.blocks = []
        sequence.computed_count = 0
