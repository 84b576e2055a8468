"""A sequence's logits have the same bits however it is run, and rejected drafts leave no trace.

Unwritten memory is NaN throughout, so a read past what is visible would show as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from deepinfer.model.config import ModelConfig, Quantization
from deepinfer.model.draft import Draft
from deepinfer.model.presets import tiny
from deepinfer.model.transformer import Transformer
from tests.model.support import BLOCK_SIZE, IMAGE, Runner, lively, tokens

ROUNDED = replace(tiny(), image_token_id=IMAGE, quantization=Quantization(caches=True, activations=True))
LENGTHS = (33, 1, 8, 17, 2)


@pytest.fixture(scope="module", params=[None, ROUNDED], ids=["exact", "rounded"])
def model(request: pytest.FixtureRequest) -> Transformer:
    config: ModelConfig | None = request.param
    return lively(config)


def pieces(ids: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    """(start, ids) of pieces whose sizes go round."""
    result: list[tuple[int, Sequence[int]]] = []
    start = 0
    while start < len(ids):
        size = sizes[len(result) % len(sizes)]
        result.append((start, ids[start : start + size]))
        start += size
    return result


@pytest.mark.parametrize("sizes", [(1,), (7,), (5, 1, 1, 22)])
def test_chunks_change_no_bit(model: Transformer, sizes: Sequence[int]) -> None:
    ids = tokens(36)
    whole = Runner(model).run(ids)
    assert whole.isfinite().all()
    runner = Runner(model)
    parts = [runner.step([(0, start, piece)])[0] for start, piece in pieces(ids, sizes)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("paged", [False, True])
def test_batches_change_no_bit(model: Transformer, paged: bool) -> None:
    """Prefills, pieces and decoded tokens of several sequences in each call."""
    prompts = [tokens(length, seed=number) for number, length in enumerate(LENGTHS)]
    alone = [Runner(model).run(ids) for ids in prompts]
    runner = Runner(model, sequences=len(prompts), paged=paged)
    plans = [pieces(ids, ((1,), (4, 1), (9,), (40,))[number % 4]) for number, ids in enumerate(prompts)]
    found: list[list[Tensor]] = [[] for _ in prompts]
    for step in range(max(len(plan) for plan in plans)):
        chosen = [number for number, plan in enumerate(plans) if step < len(plan)]
        parts = [(number, *plans[number][step]) for number in chosen]
        for number, logits in zip(chosen, runner.step(parts), strict=True):
            found[number].append(logits)
    for number, wanted in enumerate(alone):
        assert torch.equal(torch.cat(found[number]), wanted), f"sequence {number}"


def test_place_in_the_batch_changes_no_bit(model: Transformer) -> None:
    ids = tokens(20)
    wanted = Runner(model).run(ids)[-1]
    for count in (1, 2, 9, 17):
        runner = Runner(model, sequences=count + 1, capacity=32)
        others = [(number, 0, tokens(20, seed=number)) for number in range(1, count)]
        runner.step([(0, 0, ids[:-1]), *others])
        decoded = [(number, 20, [number]) for number in range(1, count)]
        found = runner.step([*decoded, (0, 19, ids[-1:])])[-1]
        assert torch.equal(found[0], wanted)


def test_preemption_changes_no_bit(model: Transformer) -> None:
    """A sequence is dropped, another uses its blocks and slot, and then it starts again from its tokens."""
    ids = tokens(40)
    wanted = Runner(model).run(ids)
    runner = Runner(model)
    runner.run(ids[:25])
    runner.run(tokens(60, seed=9))
    again = runner.step([(0, 0, ids[:31])])[0]
    rest = runner.step([(0, 31, ids[31:])])[0]
    assert torch.equal(torch.cat([again, rest]), wanted)


def test_a_prefix_hit_changes_no_bit(model: Transformer) -> None:
    """A second sequence takes the blocks of the first up to a point, and a copy of its rings as they stood there."""
    prefix, ids = tokens(24), tokens(24)[:24] + tokens(15, seed=5)
    wanted = Runner(model).run(ids)[24:]
    runner = Runner(model, sequences=2)
    runner.run(prefix)
    runner.cache.copy_slot(0, 1)
    shared = 24 // BLOCK_SIZE
    own = runner.blocks(1)
    runner.blocks = lambda sequence: [*Runner.blocks(runner, 0)[:shared], *own[shared:]]  # type: ignore[method-assign]
    assert torch.equal(runner.step([(1, 24, ids[24:])])[0], wanted)


@pytest.mark.parametrize("length", [1, 7, 20, 23])
def test_a_paged_sequence_goes_on_anywhere_within_another(model: Transformer, length: int) -> None:
    """Whole blocks are shared, the next is copied as far as it is known; both sequences then go on side by side."""
    first, ids = tokens(30), tokens(30)[:length] + tokens(15, seed=5)
    wanted = Runner(model).run(ids)[length:]
    runner = Runner(model, sequences=2, paged=True)
    runner.run(first)
    whole = length // BLOCK_SIZE
    table = [*runner.blocks(0)[:whole], *runner.blocks(1)[whole:]]
    runner.cache.copy_block(runner.blocks(0)[whole], table[whole])
    runner.blocks = lambda sequence: table if sequence else Runner.blocks(runner, 0)  # type: ignore[method-assign]
    found = runner.step([(1, length, ids[length:]), (0, 30, tokens(5, seed=8))])
    assert torch.equal(found[0], wanted)
    assert torch.equal(found[1], Runner(model).run(first + tokens(5, seed=8))[30:])


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_rejected_drafts_leave_no_trace(model: Transformer, accepted: int, paged: bool) -> None:
    """Verify three drafts at a time, keep `accepted`, and go on: logits are the plain ones, and the next draft is."""
    ids = tokens(28)
    wanted = Runner(model).run(ids)
    drafted = Runner(model, paged=paged)
    drafted.step([(0, 0, ids[:10])])
    position = 10
    while position + 4 <= len(ids):
        guesses = ids[position + 1 : position + 1 + accepted] + [77] * (3 - accepted)
        logits = drafted.step([(0, position, [ids[position], *guesses])])[0]
        assert torch.equal(logits[: 1 + accepted], wanted[position : position + 1 + accepted])
        position += 1 + accepted
    plain = Runner(model)
    plain.run(ids[:position])
    assert same(drafted.draft((5, position)), plain.draft((5, position)))


@pytest.mark.parametrize("paged", [False, True])
def test_drafts_at_the_end_of_a_prompt_leave_no_trace(model: Transformer, paged: bool) -> None:
    ids = tokens(24)
    wanted = Runner(model).run(ids)
    runner = Runner(model, paged=paged)
    runner.run([*ids[:20], 77, 78, 79])
    assert torch.equal(runner.step([(0, 20, ids[20:])])[0], wanted[20:])


def same(left: Draft, right: Draft) -> bool:
    return torch.equal(left.logits, right.logits) and torch.equal(left.confidence, right.confidence)


def test_drafts_of_a_batch_are_those_of_each(model: Transformer) -> None:
    prompts = [tokens(length, seed=length) for length in (30, 3, 12)]
    lasts = [(5 + number, len(ids)) for number, ids in enumerate(prompts)]
    runner = Runner(model, sequences=3)
    runner.step([(number, 0, ids) for number, ids in enumerate(prompts)])
    together = runner.draft(*lasts)
    for number, ids in enumerate(prompts):
        single = Runner(model)
        single.run(ids)
        assert torch.equal(single.draft(lasts[number]).logits[0], together.logits[number])


def test_the_free_mode_agrees_closely() -> None:
    model = lively()
    ids = tokens(40)
    wanted = Runner(model).run(ids)
    model.set_batch_invariant(False)
    assert torch.allclose(Runner(model).run(ids), wanted, atol=1e-3)
