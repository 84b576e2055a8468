"""The scheduler: whatever arrives, ends or aborts, blocks add up, limits hold and every step makes progress."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.core import Request, SamplingParams
from deepinfer.scheduler.scheduler import Scheduler
from deepinfer.scheduler.sequence import Sequence

BLOCK_SIZE = 4
BLOCK_COUNT = 10
MAX_STEP_TOKENS = 8
MAX_RUNNING = 3
CONTEXT_LENGTH = BLOCK_SIZE * BLOCK_COUNT


def new_sequence(name: str, length: int, max_tokens: int = 1) -> Sequence:
    sampling = SamplingParams(max_tokens=max_tokens)
    return Sequence(Request(request_id=name, token_ids=[0] * length, sampling=sampling), seed=0)


def new_scheduler(allocator: BlockAllocator) -> Scheduler:
    return Scheduler(
        allocator, block_size=BLOCK_SIZE, max_step_tokens=MAX_STEP_TOKENS, max_running_sequences=MAX_RUNNING
    )


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.allocator = BlockAllocator(BLOCK_COUNT)
        self.scheduler = new_scheduler(self.allocator)
        self.sequences: list[Sequence] = []
        self.arrivals = 0

    @rule(length=st.integers(1, CONTEXT_LENGTH - 1), data=st.data())
    def add(self, length: int, data: st.DataObject) -> None:
        max_tokens = data.draw(st.integers(1, CONTEXT_LENGTH - length))
        sequence = new_sequence(str(self.arrivals), length, max_tokens)
        self.arrivals += 1
        self.sequences.append(sequence)
        self.scheduler.add(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(self.sequences))
        self.sequences.remove(sequence)
        self.scheduler.remove(sequence)

    @rule()
    def step(self) -> None:
        before = {sequence: sequence.computed_count for sequence in self.sequences}
        chunks = self.scheduler.schedule()
        assert bool(chunks) == bool(self.sequences)
        assert sum(chunk.stop - chunk.start for chunk in chunks) <= MAX_STEP_TOKENS
        assert len({chunk.sequence for chunk in chunks}) == len(chunks)
        for chunk in chunks:
            sequence = chunk.sequence
            assert chunk.start < chunk.stop <= len(sequence.token_ids)
            assert chunk.start in (before[sequence], 0)
            assert chunk.stop == sequence.computed_count <= len(sequence.blocks) * BLOCK_SIZE
        for chunk in chunks:
            if chunk.samples:
                self.commit(chunk.sequence)

    def commit(self, sequence: Sequence) -> None:
        sequence.token_ids.append(0)
        if sequence.generated_count == sequence.request.sampling.max_tokens:
            self.sequences.remove(sequence)
            self.scheduler.remove(sequence)

    @invariant()
    def is_sound(self) -> None:
        self.scheduler.check_integrity()
        assert self.scheduler.running_count + self.scheduler.waiting_count == len(self.sequences)

    def teardown(self) -> None:
        for _ in range(10_000):
            if not self.sequences:
                break
            self.step()
        assert not self.sequences, "the sequences never end"
        assert self.allocator.free_count == BLOCK_COUNT


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_decoding_goes_before_a_long_prompt() -> None:
    scheduler = new_scheduler(BlockAllocator(BLOCK_COUNT))
    decoding, long = new_sequence("decoding", 2), new_sequence("long", 20)
    scheduler.add(decoding)
    scheduler.schedule()
    decoding.token_ids.append(0)
    scheduler.add(long)
    for place in range(2):
        first, second = scheduler.schedule()
        assert (first.sequence, first.stop - first.start) == (decoding, 1)
        assert (second.sequence, second.start, second.samples) == (long, place * 7, False)
        decoding.token_ids.append(0)


def test_the_youngest_is_preempted_and_comes_back_first() -> None:
    allocator = BlockAllocator(BLOCK_COUNT)
    scheduler = new_scheduler(allocator)
    # Two sequences that fill the cache but for two spare blocks, and a third that has to wait.
    old, young, waiting = (new_sequence(name, length) for name, length in (("old", 16), ("young", 15), ("waiting", 1)))
    for sequence in (old, young, waiting):
        scheduler.add(sequence)
    while young.pending_count or old.pending_count:
        scheduler.schedule()
    assert waiting.blocks == []
    for _ in range(6):
        for sequence in (old, young):
            sequence.token_ids += [0] * (not sequence.pending_count)
        scheduler.schedule()
    assert young.blocks == waiting.blocks == []
    assert young.computed_count == 0
    assert old.pending_count == 0
    scheduler.remove(old)
    first = scheduler.schedule()[0]
    assert (first.sequence, first.start) == (young, 0)
    scheduler.check_integrity()
