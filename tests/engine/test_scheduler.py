"""The scheduler: whatever arrives, ends or aborts, blocks add up, limits hold and every step makes progress."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.core import Request, SamplingParams
from deepinfer.scheduler.scheduler import Chunk, Scheduler
from deepinfer.scheduler.sequence import Sequence

BLOCK_SIZE = 4
BLOCK_COUNT = 10
MAX_STEP_TOKENS = 8
MAX_RUNNING = 3
CONTEXT_LENGTH = BLOCK_SIZE * BLOCK_COUNT


def new_sequence(name: str, length: int, max_tokens: int = 1, *, branch: int = 0) -> Sequence:
    """A prompt of zeros that goes on differently from token `branch` on; 0 means it never does."""
    sampling = SamplingParams(max_tokens=max_tokens)
    token_ids = [0 if not branch or place < branch else branch for place in range(length)]
    return Sequence(Request(request_id=name, token_ids=token_ids, sampling=sampling), seed=0)


def new_scheduler(allocator: BlockAllocator, *, kept_sequences: int = 0) -> Scheduler:
    return Scheduler(
        allocator,
        block_size=BLOCK_SIZE,
        max_step_tokens=MAX_STEP_TOKENS,
        max_running_sequences=MAX_RUNNING,
        kept_sequences=kept_sequences,
    )


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.allocator = BlockAllocator(BLOCK_COUNT)
        self.scheduler = new_scheduler(self.allocator, kept_sequences=4)
        # What a forward pass would have left in each block: the tokens up to each place of it.
        self.written: dict[tuple[int, int], tuple[int, ...]] = {}
        self.sequences: list[Sequence] = []
        self.arrivals = 0

    @rule(length=st.integers(1, CONTEXT_LENGTH - 1), data=st.data())
    def add(self, length: int, data: st.DataObject) -> None:
        max_tokens = data.draw(st.integers(1, CONTEXT_LENGTH - length))
        sequence = new_sequence(str(self.arrivals), length, max_tokens, branch=data.draw(st.integers(0, length)))
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
            # One that was waiting, or was preempted and admitted again, starts after what it shares.
            assert chunk.start == before[sequence] or before[sequence] in (0, chunk.start) or sequence.cached_count
            assert chunk.stop == sequence.computed_count <= len(sequence.blocks) * BLOCK_SIZE
            if chunk.block_copy is not None:
                self.copy(*chunk.block_copy)
        for chunk in chunks:
            self.run(chunk)
        for chunk in chunks:
            if chunk.samples:
                self.commit(chunk.sequence)

    def copy(self, source: int, target: int) -> None:
        for place in range(BLOCK_SIZE):
            if (source, place) in self.written:
                self.written[target, place] = self.written[source, place]

    def run(self, chunk: Chunk) -> None:
        """Write the chunk's tokens and check that all before them are there, as attention would read them."""
        sequence = chunk.sequence
        for place in range(chunk.stop):
            slot = (sequence.blocks[place // BLOCK_SIZE], place % BLOCK_SIZE)
            tokens = tuple(sequence.token_ids[: place + 1])
            if place >= chunk.start:
                self.written[slot] = tokens
            assert self.written.get(slot) == tokens, "a token's state is missing or another's"

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
        assert self.allocator.held_count == 0


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


def finish(scheduler: Scheduler, sequence: Sequence) -> None:
    """Run a sequence's prompt and end it."""
    scheduler.add(sequence)
    while sequence.pending_count:
        scheduler.schedule()
    scheduler.remove(sequence)


def test_a_prompt_takes_up_what_a_kept_sequence_shares() -> None:
    allocator = BlockAllocator(BLOCK_COUNT)
    scheduler = new_scheduler(allocator, kept_sequences=2)
    finish(scheduler, new_sequence("kept", 11))
    assert allocator.held_count == 0
    longer = new_sequence("longer", 14, branch=10)
    scheduler.add(longer)
    [chunk] = scheduler.schedule()
    # Two whole blocks are shared, and the first two tokens of the third are copied.
    assert (chunk.start, chunk.stop, longer.cached_count) == (10, 14, 10)
    assert chunk.block_copy is not None
    assert chunk.block_copy[1] == longer.blocks[2] != chunk.block_copy[0]
    assert (allocator.held_count, allocator.free_count) == (4, BLOCK_COUNT - 5)


def test_the_last_token_of_a_known_prompt_is_computed_again() -> None:
    scheduler = new_scheduler(BlockAllocator(BLOCK_COUNT), kept_sequences=2)
    finish(scheduler, new_sequence("kept", 9))
    same = new_sequence("same", 9)
    scheduler.add(same)
    [chunk] = scheduler.schedule()
    assert (chunk.start, chunk.stop, chunk.samples) == (8, 9, True)


def test_kept_sequences_go_before_a_running_one_is_preempted() -> None:
    allocator = BlockAllocator(BLOCK_COUNT)
    scheduler = new_scheduler(allocator, kept_sequences=2)
    finish(scheduler, new_sequence("kept", 30, branch=1))
    other = new_sequence("other", 37, branch=2)
    finish(scheduler, other)
    assert allocator.held_count == 0
    assert scheduler.waiting_count == scheduler.running_count == 0
