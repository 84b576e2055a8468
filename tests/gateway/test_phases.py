"""Answers in several requests: token for token what an engine writes that knows the whole grammar."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer.backends.native import NativeEngine
from deepinfer.backends.remote.dialects import GrammarForm
from deepinfer.backends.remote.phases import Phases
from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, Grammar, Request, SamplingParams, StepOutput, ThinkingLimit
from deepinfer.model.presets import embedded
from tests.engine.support import collect
from tests.structured.support import END, MARK, SMALL_SIZE, THINK_END, small_vocabulary

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
WORD = "start: /[a-c]{4}/"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[NativeEngine]:
    config = EngineConfig(context_length=256, block_size=16, block_count=64, max_step_tokens=64)
    native = NativeEngine(config, embedded(vocab_size=SMALL_SIZE), vocabulary=small_vocabulary)
    await native.start()
    yield native
    await native.stop()


def asked(
    grammar: Grammar | None = None,
    *,
    max_tokens: int = 40,
    limit: int | None = None,
    bias: dict[int, float] | None = None,
) -> Request:
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0, stop_token_ids=(END,), logit_bias=bias or {})
    thinking_limit = None if limit is None else ThinkingLimit(tokens=limit, end_token_id=THINK_END)
    return Request(
        request_id="a", token_ids=[7, 8, 9], sampling=sampling, grammar=grammar, thinking_limit=thinking_limit
    )


async def in_phases(engine: NativeEngine, request: Request) -> tuple[list[int], FinishReason | None, int]:
    """The answer, why it ended, and how many requests it took."""
    phases = Phases(request, GrammarForm.FROM_THE_START)
    answer, count = list(phases.opening()), 0
    while phases.finish is None:
        step = replace(phases.next_request(), request_id=f"phase-{count}")
        assert step.thinking_limit is None
        assert step.grammar is None or (step.grammar.start_after, step.grammar.trigger) == (None, None)
        count += 1
        reason = None
        async for output in engine.submit(step):
            reason = output.finish_reason
            answer += phases.take(replace(output, finish_reason=None)).token_ids
        assert reason is not None
        answer += phases.end(reason)
    return answer, phases.finish, count


def never(*ids: int) -> dict[int, float]:
    return dict.fromkeys(ids, -100.0)


CASES: dict[str, tuple[Request, int]] = {
    "plain": (asked(bias=never(END)), 1),
    "grammar at once": (asked(Grammar(text=WORD)), 1),
    "limit of thinking": (asked(limit=5, bias=never(END, THINK_END), max_tokens=20), 2),
    "no thinking at all": (asked(limit=0, bias=never(END), max_tokens=20), 1),
    "grammar after thinking": (asked(Grammar(text=WORD, start_after=THINK_END), bias=never(END) | {THINK_END: 8.0}), 2),
    "grammar after limit": (
        asked(Grammar(text=WORD, start_after=THINK_END), limit=6, bias=never(END, THINK_END)),
        2,
    ),
    "limit beyond the answer": (asked(limit=50, bias=never(END, THINK_END), max_tokens=10), 1),
    "limit at the end of the answer": (asked(limit=10, bias=never(END, THINK_END), max_tokens=10), 1),
    "end of thinking is the last token": (asked(limit=9, bias=never(END, THINK_END), max_tokens=10), 1),
    "cut in the grammar": (
        asked(Grammar(text=WORD, start_after=THINK_END), limit=6, bias=never(END, THINK_END), max_tokens=9),
        2,
    ),
    "trigger": (asked(Grammar(text=WORD, trigger=MARK, binding=False), bias=never(END) | {MARK: 8.0}), 2),
    "trigger after limited thinking": (
        asked(
            Grammar(text=WORD, start_after=THINK_END, trigger=MARK, binding=False),
            limit=4,
            bias=never(END, THINK_END) | {MARK: 8.0},
        ),
        3,
    ),
    "trigger that never comes": (
        asked(Grammar(text=WORD, trigger=MARK, binding=False), bias=never(END, MARK), max_tokens=12),
        1,
    ),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", CASES)
async def test_the_answer_is_that_of_an_engine_that_knows_all(engine: NativeEngine, name: str) -> None:
    request, count = CASES[name]
    answer, reason, used = await in_phases(engine, request)
    assert (answer, reason) == await collect(engine.submit(request))
    assert used == count


@pytest.mark.asyncio(loop_scope="module")
async def test_a_trigger_within_thinking_wakes_nothing(engine: NativeEngine) -> None:
    grammar = Grammar(text=WORD, start_after=THINK_END, trigger=MARK, binding=False)
    bias = never(END) | {MARK: 12.0, THINK_END: 9.0}
    request = asked(grammar, bias=bias)
    whole, reason = await collect(engine.submit(request))
    assert whole[: whole.index(THINK_END)].count(MARK) > 2, "the model does not quote the mark; take another bias"
    answer, end, used = await in_phases(engine, request)
    assert (answer, end) == (whole, reason)
    # The first quote, the rest of the thinking, the prose up to the mark, and what follows it.
    assert used <= 4


def step(*ids: int) -> StepOutput:
    return StepOutput(token_ids=ids)


def test_an_answer_that_ends_before_its_grammar_goes_on_with_it() -> None:
    phases = Phases(asked(Grammar(text=WORD, start_after=THINK_END)), GrammarForm.FROM_THE_START)
    assert phases.next_request().grammar is None
    assert phases.take(step(10, 11, END)).token_ids == (10, 11)
    assert phases.end(STOP) == (THINK_END,)
    request = phases.next_request()
    assert request.grammar is not None and list(request.token_ids) == [7, 8, 9, 10, 11, THINK_END]
    assert request.sampling.max_tokens == 37
    assert phases.take(step(97, END)).token_ids == (97, END)
    assert (phases.end(STOP), phases.finish) == ((), STOP)


def test_what_knows_the_whole_grammar_gets_it_whole() -> None:
    request = asked(Grammar(text=WORD, start_after=THINK_END), limit=3)
    phases = Phases(request, GrammarForm.WHOLE)
    assert phases.next_request() is request
    assert (phases.end(LENGTH), phases.finish) == ((), LENGTH)


def test_what_knows_no_grammars_gets_none_and_limits_thinking_all_the_same() -> None:
    request = asked(Grammar(text=WORD, start_after=THINK_END, required=False, binding=False), limit=2)
    phases = Phases(request, GrammarForm.NONE)
    assert (phases.next_request().grammar, phases.next_request().sampling.max_tokens) == (None, 2)
    phases.take(step(10, 11))
    assert phases.end(LENGTH) == (THINK_END,)
    assert phases.next_request().grammar is None


@settings(max_examples=300, deadline=None)
@given(
    ids=st.lists(st.lists(st.sampled_from([10, 11, END, THINK_END, MARK]), max_size=5), max_size=12),
    reasons=st.lists(st.sampled_from([STOP, LENGTH]), min_size=12, max_size=12),
    start_after=st.sampled_from([None, THINK_END]),
    trigger=st.sampled_from([None, MARK]),
    binding=st.booleans(),
    limit=st.sampled_from([None, 0, 1, 3]),
    max_tokens=st.integers(1, 12),
)
def test_whatever_an_upstream_writes_requests_stay_few_and_within_bounds(
    ids: list[list[int]], reasons: list[FinishReason], **fields: Any
) -> None:
    grammar = Grammar(
        text=WORD, start_after=fields["start_after"], trigger=fields["trigger"], binding=fields["binding"]
    )
    limit = fields["limit"] if fields["start_after"] is not None else None
    phases = Phases(asked(grammar, limit=limit, max_tokens=fields["max_tokens"]), GrammarForm.FROM_THE_START)
    length, count = len(phases.opening()), 0
    while phases.finish is None and count < len(ids):
        request = phases.next_request()
        assert 1 <= request.sampling.max_tokens <= fields["max_tokens"] - length
        length += len(phases.take(step(*ids[count][: request.sampling.max_tokens])).token_ids)
        length += len(phases.end(reasons[count]))
        count += 1
    assert length <= fields["max_tokens"]
