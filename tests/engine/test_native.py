"""The native engine behind its asyncio protocol: streams, aborts, refusals, and what happens when its thread dies."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from deepinfer.backends.native import NativeEngine
from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, SamplingParams, StepOutput
from deepinfer.engine import EngineLoop, Outputs
from deepinfer.errors import EngineError
from deepinfer.model.checkpoint import save_model
from deepinfer.model.initial import randomize
from deepinfer.model.presets import embedded
from deepinfer.model.transformer import Transformer
from tests.engine.support import CONFIG, TINY, collect, engine_loop, greedy, prompt, request, run


@pytest.fixture
async def engine() -> AsyncIterator[NativeEngine]:
    native = NativeEngine(CONFIG, TINY)
    await native.start()
    yield native
    await native.stop()


async def until_idle(engine: NativeEngine) -> None:
    """Wait until no request is in flight, then check that the engine holds no memory."""
    async with asyncio.timeout(10):
        while engine.health().running or engine.health().waiting:
            await asyncio.sleep(0.001)
    assert engine.health().cache_bytes == 0


async def test_streams_what_the_loop_computes(engine: NativeEngine) -> None:
    one = request("a", prompt(1, 50), greedy(20))
    stream = engine.submit(one)
    assert await collect(stream) == (run(engine_loop(), [one])["a"], FinishReason.LENGTH)
    assert await collect(stream) == ([], None)
    await until_idle(engine)


async def test_health_tells_how_much_of_a_checkpoint_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_model(randomize(Transformer(TINY), seed=0, logit_deviation=1.0), tmp_path)
    engine = NativeEngine(CONFIG, TINY, tmp_path)
    shown: list[float | None] = []
    caplog.set_level(logging.INFO, "deepinfer.backends.native")

    def look(_: logging.LogRecord) -> bool:
        """Called for each line of the log, by the thread that loads."""
        shown.append(engine.health().progress)
        return True

    caplog.handler.addFilter(look)
    await engine.start()
    assert shown == pytest.approx([number / 10 for number in range(1, 11)], abs=0.05)
    assert engine.health().progress is None
    await engine.stop()


@pytest.mark.timeout(240)
async def test_64_streams_of_200_tokens_stay_apart() -> None:
    """The full vocabulary, greedy and seeded requests mixed; each answer equals the one the request gets alone."""
    config = EngineConfig(context_length=512, block_count=1600)
    engine = NativeEngine(config, embedded())
    await engine.start()
    requests = [
        request(
            str(number),
            prompt(number, 5 + number),
            SamplingParams(max_tokens=200, temperature=number % 2, top_p=0.95, seed=number),
        )
        for number in range(64)
    ]
    answers = await asyncio.gather(*[collect(engine.submit(one)) for one in requests])
    assert all(len(ids) == 200 and reason is FinishReason.LENGTH for ids, reason in answers)
    assert len({tuple(ids) for ids, _ in answers}) == 64
    await until_idle(engine)
    for number in (0, 1, 38, 63):
        again = replace(requests[number], sampling=replace(requests[number].sampling, max_tokens=60))
        assert (await collect(engine.submit(again)))[0] == answers[number][0][:60]
    await engine.stop()


async def test_abort_ends_the_stream(engine: NativeEngine) -> None:
    stream = engine.submit(request("a", prompt(1, 20), greedy(400)))
    first = await anext(stream)
    assert engine.health().running == 1
    assert engine.health().cache_bytes > 0
    engine.abort("a")
    engine.abort("unknown")
    token_ids, reason = await collect(stream)
    assert reason is FinishReason.ABORT
    assert len(first.token_ids) + len(token_ids) < 400
    await until_idle(engine)


@pytest.fixture
def no_full_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slow the engine down, and fail the test when a request for 400 tokens ran to its end."""
    step = EngineLoop.step
    outputs: Outputs = []

    def slow_step(engine: EngineLoop) -> Outputs:
        time.sleep(0.005)
        new = step(engine)
        outputs.extend(new)
        return new

    monkeypatch.setattr(EngineLoop, "step", slow_step)
    yield
    assert not any(isinstance(output, StepOutput) and output.finish_reason for _, output in outputs)


@pytest.mark.usefixtures("no_full_answer")
async def test_closing_the_stream_aborts(engine: NativeEngine) -> None:
    async with aclosing(engine.submit(request("a", prompt(1, 20), greedy(400)))) as stream:
        await anext(stream)
    assert await collect(stream) == ([], None)
    await until_idle(engine)


@pytest.mark.usefixtures("no_full_answer")
async def test_closing_a_stream_that_was_never_read_aborts(engine: NativeEngine) -> None:
    await engine.submit(request("a", prompt(1, 20), greedy(400))).aclose()
    await until_idle(engine)


@pytest.mark.usefixtures("no_full_answer")
async def test_dropping_the_stream_aborts(engine: NativeEngine) -> None:
    stream = engine.submit(request("a", prompt(1, 20), greedy(400)))
    await anext(stream)
    del stream
    gc.collect()
    await until_idle(engine)


async def test_closing_an_ended_stream_spares_the_next_of_its_id(engine: NativeEngine) -> None:
    ended = engine.submit(request("a", prompt(1, 20), greedy(1)))
    await until_idle(engine)
    stream = engine.submit(request("a", prompt(1, 20), greedy(100)))
    await ended.aclose()
    assert (await collect(stream))[1] is FinishReason.LENGTH


async def test_waiting_with_a_timeout_loses_nothing(engine: NativeEngine) -> None:
    one = request("a", prompt(1, 50), greedy(20))
    expected = run(engine_loop(), [one])["a"]
    stream = engine.submit(one)
    token_ids: list[int] = []
    while len(token_ids) < 20:
        try:
            output = await asyncio.wait_for(anext(stream), timeout=0.0005)
        except TimeoutError:
            continue
        token_ids += output.token_ids
    assert token_ids == expected


async def test_the_event_loop_is_not_blocked(engine: NativeEngine) -> None:
    streams = [collect(engine.submit(request(str(number), prompt(number, 300), greedy(50)))) for number in range(8)]
    work = asyncio.gather(*streams)
    turns = 0
    while not work.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 50


@pytest.mark.parametrize(
    ("token_ids", "sampling", "code", "words"),
    [
        (prompt(1, 512), greedy(1), "context_length_exceeded", ("512", "513", "max_tokens is 1")),
        (prompt(1, 12), greedy(501), "context_length_exceeded", ("512", "513", "max_tokens is 501")),
        ([], greedy(1), "empty_prompt", ("token_ids",)),
        ([1, 1000], greedy(1), "invalid_token_id", ("1000", "999")),
        ([-1, 1], greedy(1), "invalid_token_id", ("-1",)),
        ([1], greedy(0), "invalid_sampling", ("max_tokens is 0",)),
        ([1], SamplingParams(max_tokens=1, temperature=-0.5), "invalid_sampling", ("temperature is -0.5",)),
        ([1], SamplingParams(max_tokens=1, temperature=float("nan")), "invalid_sampling", ("temperature is nan",)),
        ([1], SamplingParams(max_tokens=1, top_p=1.5), "invalid_sampling", ("top_p is 1.5",)),
        ([1], SamplingParams(max_tokens=1, min_p=-0.1), "invalid_sampling", ("min_p is -0.1",)),
        ([1], SamplingParams(max_tokens=1, top_k=0), "invalid_sampling", ("top_k is 0",)),
        ([1], SamplingParams(max_tokens=1, presence_penalty=2.1), "invalid_sampling", ("presence_penalty is 2.1",)),
        ([1], SamplingParams(max_tokens=1, frequency_penalty=-3), "invalid_sampling", ("frequency_penalty is -3",)),
        ([1], SamplingParams(max_tokens=1, repetition_penalty=0), "invalid_sampling", ("repetition_penalty is 0",)),
        ([1], SamplingParams(max_tokens=1, logit_bias={1: 101}), "invalid_sampling", ("logit_bias of 1 is 101",)),
        ([1], SamplingParams(max_tokens=1, logit_bias={1: float("nan")}), "invalid_sampling", ("logit_bias", "nan")),
        ([1], SamplingParams(max_tokens=1, logit_bias={1000: 1}), "invalid_token_id", ("logit_bias has 1000", "999")),
        ([1], SamplingParams(max_tokens=1, top_logprobs=1001), "invalid_sampling", ("top_logprobs is 1001", "1000")),
    ],
)
async def test_a_request_that_cannot_run_is_refused(
    engine: NativeEngine, token_ids: list[int], sampling: SamplingParams, code: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(EngineError) as refusal:
        engine.submit(request("a", token_ids, sampling))
    assert refusal.value.code == code
    assert refusal.value.client_fault
    assert all(word in str(refusal.value) for word in words)
    assert engine.health().waiting == 0


async def test_request_ids_in_flight_are_unique(engine: NativeEngine) -> None:
    stream = engine.submit(request("a", prompt(1, 20), greedy(5)))
    with pytest.raises(EngineError) as refusal:
        engine.submit(request("a", prompt(2, 20), greedy(5)))
    assert (refusal.value.code, refusal.value.client_fault) == ("duplicate_request_id", True)
    await collect(stream)
    assert len((await collect(engine.submit(request("a", prompt(2, 20), greedy(5)))))[0]) == 5


async def test_a_failing_step_ends_every_stream(engine: NativeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [engine.submit(request(str(number), prompt(number, 20), greedy(400))) for number in range(3)]
    await anext(streams[0])

    def fail(_: EngineLoop) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(EngineLoop, "step", fail)
    for stream in streams:
        with pytest.raises(EngineError, match="RuntimeError") as failure:
            await collect(stream)
        assert (failure.value.code, failure.value.client_fault) == ("engine_failed", False)
    health = engine.health()
    assert (health.ready, health.running, health.waiting, health.cache_bytes) == (False, 0, 0, 0)
    assert "RuntimeError" in health.detail
    with pytest.raises(EngineError) as refusal:
        engine.submit(request("late", [1], greedy(1)))
    assert refusal.value.code == "engine_failed"


async def test_stop_ends_every_stream_and_start_begins_anew() -> None:
    engine = NativeEngine(CONFIG, TINY)
    for detail in ("not started", "stopped"):
        with pytest.raises(EngineError, match=detail) as refusal:
            engine.submit(request("a", [1], greedy(1)))
        assert refusal.value.code == "engine_stopped"
        assert not engine.health().ready
        await engine.start()
        assert engine.health().ready
        streams = [engine.submit(request(str(number), prompt(number, 20), greedy(400))) for number in range(20)]
        await anext(streams[0])
        await engine.stop()
        for stream in streams:
            assert (await collect(stream))[1] is FinishReason.ABORT
        await until_idle(engine)
    await engine.stop()


async def test_describes_its_model(engine: NativeEngine) -> None:
    description = engine.describe()
    assert (description.name, description.recipe_version) == ("deepseek-embedded", "v4.1")
    assert (description.vocabulary_size, description.context_length) == (1000, 512)
