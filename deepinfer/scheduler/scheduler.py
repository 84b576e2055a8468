"""Owns who runs in the next step, queue membership and block tables; the only caller of the block allocator.

Knows nothing of tensors, sampling or text. A step costs O(running sequences), whatever their lengths.

Policy: first come, first served. A sequence is admitted when blocks for all tokens it has are free, so a prompt split
over steps never stops half way. One that needs a block when none is free takes those of the youngest running sequence,
which goes back to the head of the queue and computes its keys and values again. The oldest is never the victim while
others run, and the cache holds at least one full context, so every step makes progress.

The blocks of sequences that have ended are kept for others that begin alike, as long as nobody needs the memory: kept
ones go before a running sequence is preempted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.cache.prefix import PrefixCache
from deepinfer.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens `start` to `stop` of a sequence, to be run in this step.

    `block_copy` is a block and the one it must be copied to first: the sequence goes on in the middle of what another
    has computed.
    """

    sequence: Sequence
    start: int
    stop: int
    block_copy: tuple[int, int] | None = None

    @property
    def samples(self) -> bool:
        """True when the chunk ends at the last known token, so that the next one can be sampled."""
        return self.stop == len(self.sequence.token_ids)


class Scheduler:
    """Queues of one engine. Every running sequence is older than every waiting one."""

    def __init__(
        self,
        allocator: BlockAllocator,
        *,
        block_size: int,
        max_step_tokens: int,
        max_running_sequences: int,
        kept_sequences: int,
    ) -> None:
        self._allocator = allocator
        # The blocks of a kept sequence, the last of which may be in part unused.
        self._prefixes: PrefixCache[list[int]] = PrefixCache(kept_sequences)
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

    def resume(self, sequence: Sequence) -> None:
        """Queue a sequence that was removed and has to go on, before all that wait for their first step."""
        self._waiting.appendleft(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, finished or not, but keep what it computed. Raises ValueError if it is not queued."""
        if sequence in self._running:
            self._running.remove(sequence)
            self._keep(sequence)
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
        while budget > 0 and self._waiting and len(self._running) < self._max_running_sequences:
            sequence = self._waiting[0]
            block_copy = self._admit(sequence)
            if not sequence.blocks:
                break
            self._running.append(self._waiting.popleft())
            budget -= self._take(sequence, budget, chunks, block_copy)
        return chunks

    def check_integrity(self) -> None:
        """Raise AssertionError unless queues, block tables and allocator agree."""
        self._allocator.check_integrity()
        held = {block for sequence in self._running for block in sequence.blocks}
        assert len(held) == self._allocator.held_count, "a block is held but belongs to no running sequence"
        assert len(self._running) <= self._max_running_sequences, "too many sequences run"
        for sequence in self._running:
            assert len(set(sequence.blocks)) == len(sequence.blocks), "a sequence holds a block twice"
            assert 0 <= sequence.computed_count <= len(sequence.blocks) * self._block_size, "state outside the blocks"
        for sequence in self._waiting:
            assert not sequence.blocks, "a waiting sequence holds blocks"
            assert sequence.computed_count == 0, "a waiting sequence claims computed state"

    @staticmethod
    def _take(sequence: Sequence, budget: int, chunks: list[Chunk], block_copy: tuple[int, int] | None = None) -> int:
        count = min(sequence.pending_count, budget)
        if count > 0:
            start = sequence.computed_count
            chunks.append(Chunk(sequence=sequence, start=start, stop=start + count, block_copy=block_copy))
            sequence.computed_count += count
        return count

    def _admit(self, sequence: Sequence) -> tuple[int, int] | None:
        """Give a waiting sequence all its blocks, or none if there is no room.

        Returns the block copy that must come first: a block that is not known to its end cannot be shared. Its source
        may be free by then, as nothing is written before all copies are made.
        """
        # The last token is computed in any case: its logits are wanted.
        length, kept = self._prefixes.match(sequence.token_ids[:-1])
        whole, rest = divmod(length, self._block_size)
        shared = kept[:whole] if kept is not None else []
        self._allocator.share(shared)
        sequence.blocks = shared
        # One spare block per running sequence keeps a newcomer from being preempted in the very next steps.
        missing = self._missing_blocks(sequence)
        if not self._make_room(missing + len(self._running)):
            self._release(sequence)
            return None
        sequence.blocks = shared + self._allocator.allocate(missing)
        sequence.computed_count = length
        if sequence.cached_count is None:
            sequence.cached_count = length
        return (kept[whole], sequence.blocks[whole]) if kept is not None and rest else None

    def _make_room(self, count: int) -> bool:
        """Evict kept sequences until `count` blocks are free; False, and none is evicted, if that would not do."""
        if count > self._allocator.block_count - self._allocator.held_count:
            return False
        while count > self._allocator.free_count:
            self._allocator.drop(self._prefixes.evict() or ())
        return True

    def _missing_blocks(self, sequence: Sequence) -> int:
        return -(-len(sequence.token_ids) // self._block_size) - len(sequence.blocks)

    def _grow_running(self) -> None:
        index = 0
        while index < len(self._running):
            sequence = self._running[index]
            missing = self._missing_blocks(sequence)
            if self._make_room(missing):
                sequence.blocks += self._allocator.allocate(missing)
                index += 1
            else:
                self._preempt(self._running[-1])

    def _preempt(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._release(sequence)
        self._waiting.appendleft(sequence)

    def _keep(self, sequence: Sequence) -> None:
        if sequence.computed_count == 0:
            return
        blocks = sequence.blocks[: -(-sequence.computed_count // self._block_size)]
        self._allocator.keep(blocks)
        for forgotten in self._prefixes.keep(sequence.token_ids[: sequence.computed_count], blocks):
            self._allocator.drop(forgotten)

    def _release(self, sequence: Sequence) -> None:
        self._allocator.free(sequence.blocks)
        sequence.blocks = []
        sequence.computed_count = 0
