"""The scripted engine: ids come out as written, through the same protocol as the native engine's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from deepinfer.backends.scripted import Script, ScriptedEngine
from deepinfer.core import FinishReason, ModelDescription, Request
from deepinfer.errors import EngineError
from tests.engine.support import collect, greedy, request

DESCRIPTION = ModelDescription(name="script", recipe_version="v4", vocabulary_size=100, context_length=50)
SCRIPTS = {
    "plain": Script((1, 2, 3, 4, 5), tokens_per_step=2),
    "empty": Script(()),
    "slow": Script((1, 2, 3), delay_seconds=60.0),
    "cut": Script((1, 2, 3), finish_reason=FinishReason.LENGTH),
}


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    def choose(request: Request) -> Script:
        return SCRIPTS[request.request_id.rstrip("0123456789")]

    scripted = ScriptedEngine(choose, DESCRIPTION)
    await scripted.start()
    yield scripted
    await scripted.stop()


async def test_replays_step_by_step(engine: ScriptedEngine) -> None:
    outputs = [output async for output in engine.submit(request("plain", [1], greedy(20)))]
    assert [output.token_ids for output in outputs] == [(1, 2), (3, 4), (5,)]
    assert [output.finish_reason for output in outputs] == [None, None, FinishReason.STOP]
    assert [output.cached_tokens for output in outputs] == [0, None, None]
    assert engine.health().running == 0


@pytest.mark.parametrize(
    ("name", "max_tokens", "expected"),
    [
        ("plain", 3, ([1, 2, 3], FinishReason.LENGTH)),
        ("plain", 5, ([1, 2, 3, 4, 5], FinishReason.STOP)),
        ("cut", 20, ([1, 2, 3], FinishReason.LENGTH)),
        ("empty", 20, ([], FinishReason.STOP)),
    ],
)
async def test_says_why_it_ended(
    engine: ScriptedEngine, name: str, max_tokens: int, expected: tuple[list[int], FinishReason]
) -> None:
    assert await collect(engine.submit(request(name, [1], greedy(max_tokens)))) == expected


async def test_waits_between_steps() -> None:
    engine = ScriptedEngine(lambda _: Script((1, 2, 3), delay_seconds=0.02), DESCRIPTION)
    await engine.start()
    began = time.perf_counter()
    await collect(engine.submit(request("a", [1], greedy(9))))
    assert time.perf_counter() - began >= 0.06


async def test_abort_and_stop_end_even_a_waiting_stream(engine: ScriptedEngine) -> None:
    streams = [engine.submit(request(f"slow{number}", [1], greedy(9))) for number in range(2)]
    reads = [asyncio.create_task(collect(stream)) for stream in streams]
    await asyncio.sleep(0.01)
    assert engine.health().running == 2
    engine.abort("slow0")
    engine.abort("unknown")
    async with asyncio.timeout(5):
        assert await reads[0] == ([], FinishReason.ABORT)
        assert engine.health().running == 1
        await engine.stop()
        assert await reads[1] == ([], FinishReason.ABORT)
    assert not engine.health().ready


async def test_closed_and_dropped_streams_are_not_in_flight(engine: ScriptedEngine) -> None:
    closed = engine.submit(request("plain1", [1], greedy(9)))
    await anext(closed)
    await closed.aclose()
    await closed.aclose()
    assert await collect(closed) == ([], None)
    dropped = engine.submit(request("plain2", [1], greedy(9)))
    await anext(dropped)
    del dropped
    assert engine.health().running == 0


async def test_counts_cached_tokens_as_a_model_would(engine: ScriptedEngine) -> None:
    async def cached(prompt: list[int]) -> int | None:
        outputs = [output async for output in engine.submit(request("plain", prompt, greedy(20)))]
        return outputs[0].cached_tokens

    assert await cached([7, 8, 9]) == 0
    # The last token of a prompt is computed in any case.
    assert await cached([7, 8, 9]) == 2
    # The answer's last token never is.
    assert await cached([7, 8, 9, 1, 2, 3, 4, 5, 6]) == 7
    assert await cached([7, 8, 1]) == 2
    stopped = engine.submit(request("slow1", [5, 5, 5, 5], greedy(9)))
    await stopped.aclose()
    assert await cached([5, 5, 5]) == 0, "nothing was computed of a request that ended before its first step"


async def test_refuses_what_no_engine_could_run(engine: ScriptedEngine) -> None:
    stream = engine.submit(request("plain", [1], greedy(9)))
    for one, code in (
        (request("plain", [1], greedy(9)), "duplicate_request_id"),
        (request("empty", [1], greedy(50)), "context_length_exceeded"),
    ):
        with pytest.raises(EngineError) as refusal:
            engine.submit(one)
        assert refusal.value.code == code
    await collect(stream)
    await engine.stop()
    with pytest.raises(EngineError) as refusal:
        engine.submit(request("plain", [1], greedy(9)))
    assert refusal.value.code == "engine_stopped"


def test_a_script_needs_a_step() -> None:
    with pytest.raises(ValueError, match="tokens_per_step is 0"):
        Script((1,), tokens_per_step=0)
