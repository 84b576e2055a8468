"""Generations: merging, bounds, and that nothing outlives its block."""

from __future__ import annotations

import asyncio
import gc
import weakref
from array import array
from dataclasses import replace

import pytest

from deepinfer.backends.scripted import Script, ScriptedEngine
from deepinfer.core import FinishReason, ModelDescription, Request, SamplingParams
from deepinfer.errors import EngineError
from deepinfer.server.answer import Answer
from deepinfer.server.decoding import AnswerDecoder
from deepinfer.server.exchange import Exchange
from deepinfer.server.generation import Generation, LiveGenerations
from deepinfer.server.waiting import WaitLimit
from deepinfer.server.work import Work

MODEL = ModelDescription(name="m", recipe_version="v4.1", vocabulary_size=1_000_000, context_length=1_000_000)
EXCHANGE = Exchange(request_id="req_1", method="POST", path="/", client="key_1")
LONG = 100_000


async def engine_with(script: Script) -> ScriptedEngine:
    engine = ScriptedEngine(lambda request: script, MODEL)
    await engine.start()
    return engine


def requests(count: int = 1, *, max_tokens: int = LONG) -> list[Request]:
    sampling = SamplingParams(max_tokens=max_tokens)
    return [Request(request_id=f"r/{number}", token_ids=[1], sampling=sampling) for number in range(count)]


async def read_to_end(generation: Generation, choices: int) -> dict[int, list[int]]:
    token_ids: dict[int, list[int]] = {choice: [] for choice in range(choices)}
    left = choices
    while left:
        for choice, output in await generation.next_outputs(WaitLimit(30)):
            token_ids[choice] += output.token_ids
            left -= output.finish_reason is not None
    return token_ids


async def test_outputs_of_every_choice_come_whole_and_in_order() -> None:
    engine = await engine_with(Script(token_ids=tuple(range(100)), tokens_per_step=7))
    async with Generation(engine, requests(3)) as generation:
        assert await read_to_end(generation, 3) == {choice: list(range(100)) for choice in range(3)}
    assert engine.health().running == 0


async def test_leaving_early_frees_the_engine() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG))
    async with Generation(engine, requests(2)) as generation:
        assert await generation.next_outputs(WaitLimit(30))
        assert engine.health().running == 2
    assert engine.health().running == 0


async def test_leaving_early_lets_go_of_the_prompt_without_the_garbage_collector() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG))
    prompt = array("I", [1, 2])
    kept = weakref.ref(prompt)
    asked = [replace(request, token_ids=prompt) for request in requests()]
    gc.disable()
    try:
        async with Generation(engine, asked) as generation:
            assert await generation.next_outputs(WaitLimit(30))
        del prompt, asked, generation
        await asyncio.sleep(0)
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("choices", [1, 2])
async def test_a_reader_that_pauses_stops_the_engine_after_few_outputs(choices: int) -> None:
    engine = await engine_with(Script(token_ids=tuple(range(LONG))))
    async with Generation(engine, requests(choices)) as generation:
        for _ in range(1000):
            await asyncio.sleep(0)
        waiting = await generation.next_outputs(WaitLimit(30))
    assert choices <= len(waiting) < 50


async def test_what_waits_of_several_choices_comes_at_once() -> None:
    engine = await engine_with(Script(token_ids=(1, 2, 3)))
    async with Generation(engine, requests(2)) as generation:
        for _ in range(100):
            await asyncio.sleep(0)
        outputs = await generation.next_outputs(WaitLimit(30))
    for choice in range(2):
        assert [output.token_ids for number, output in outputs if number == choice] == [(1,), (2,), (3,)]


@pytest.mark.parametrize("choices", [1, 2])
async def test_silence_returns_nothing_and_loses_nothing(choices: int) -> None:
    engine = await engine_with(Script(token_ids=(1, 2), tokens_per_step=2, delay_seconds=0.05))
    async with Generation(engine, requests(choices)) as generation:
        silences = 0
        while not (outputs := await generation.next_outputs(WaitLimit(0.001))):
            silences += 1
    assert silences > 0
    assert outputs[0][1].token_ids == (1, 2)


async def test_abort_from_outside_ends_the_outputs() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG, delay_seconds=0.01))
    live = LiveGenerations()
    async with Generation(engine, requests()) as generation:
        with live.tracking(generation, EXCHANGE):
            assert live.abort_all() == 1
            (_, last), *_ = await generation.next_outputs(WaitLimit(30))
    assert last.finish_reason is FinishReason.ABORT
    assert live.abort_all() == 0


async def test_clients_cancel_their_own_requests_only() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG, delay_seconds=0.01))
    live = LiveGenerations()
    async with Generation(engine, requests()) as generation:
        with live.tracking(generation, EXCHANGE):
            assert live.cancel("another", EXCHANGE.request_id) == live.cancel(EXCHANGE.client, "another") == 0
            assert not generation.cancelled
            assert live.cancel(EXCHANGE.client, EXCHANGE.request_id) == 1
            (_, last), *_ = await generation.next_outputs(WaitLimit(30))
    assert generation.cancelled and last.finish_reason is FinishReason.ABORT
    assert live.cancel(EXCHANGE.client, EXCHANGE.request_id) == 0


async def test_nothing_begins_after_all_were_told_to_end() -> None:
    engine = await engine_with(Script(token_ids=(7,)))
    live = LiveGenerations()
    live.abort_all()
    with pytest.raises(EngineError, match="shutting down"):
        async with Generation(engine, requests()) as generation:
            with live.tracking(generation, EXCHANGE):
                raise AssertionError("must not get here")
    assert engine.health().running == 0


async def test_a_request_that_cannot_run_takes_none_of_its_siblings_along() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG))
    good = requests()
    bad = Request(request_id="bad", token_ids=[], sampling=SamplingParams(max_tokens=1))
    with pytest.raises(EngineError, match="empty"):
        async with Generation(engine, [*good, bad]):
            raise AssertionError("must not get here")
    assert engine.health().running == 0


async def test_what_is_submitted_ahead_of_its_block_is_submitted_once_and_ends_with_it() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG))
    generation = Generation(engine, requests(2))
    await generation.submit()
    assert engine.health().running == 2
    async with generation:
        assert await generation.next_outputs(WaitLimit(30))
        assert engine.health().running == 2
    assert engine.health().running == 0


async def test_the_engine_is_at_work_before_the_decoder_is_made() -> None:
    engine = await engine_with(Script(token_ids=(7,) * LONG))
    running: list[int] = []

    def decoder() -> AnswerDecoder:
        running.append(engine.health().running)
        raise ZeroDivisionError

    work = Work(
        answer_id="a",
        model="m",
        stream=True,
        requests=requests(),
        decoder=decoder,
        prompt_tokens=2,
        prompt=str,
    )
    answer = Answer(engine, LiveGenerations(), EXCHANGE, work, fingerprint="f", wait_seconds=30)
    await answer.begin()
    assert engine.health().running == 1 and not running
    # Whatever goes wrong then, it does not go on.
    with pytest.raises(ZeroDivisionError):
        await answer.whole()
    assert running == [1] and engine.health().running == 0
