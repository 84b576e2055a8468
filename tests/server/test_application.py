"""The application in this process, with engines that fail or dawdle in ways a real one does rarely."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

import deepseek_recipe as recipe
from deepinfer.backends.scripted import Script, ScriptedEngine
from deepinfer.core import Engine, Health, ModelDescription, OutputStream, Request, StepOutput
from deepinfer.errors import EngineError
from deepinfer.server.app import build_application
from deepinfer.server.config import ServerConfig
from deepinfer.server.responses.store.interface import Limits
from deepinfer.server.responses.store.memory import MemoryResponseStore
from deepinfer.server.services import build_services

CHAT = "/v1/chat/completions"
MODEL = ModelDescription(name="m", recipe_version="v4.1", vocabulary_size=129280, context_length=4096)
ANSWER = tuple(recipe.Tokenizer.built_in("v4.1").encode("thought</think>answer", special=True))


class FailingEngine(ScriptedEngine):
    """Replays a script and fails in place of the output numbered `fails_at`."""

    def __init__(self, error: Exception, *, fails_at: int) -> None:
        super().__init__(lambda request: Script(token_ids=ANSWER), MODEL)
        self._error = error
        self._fails_at = fails_at

    def submit(self, request: Request) -> OutputStream:
        return FailingStream(super().submit(request), self._error, self._fails_at)


class FailingStream:
    """A stream that breaks off."""

    def __init__(self, stream: OutputStream, error: Exception, outputs_left: int) -> None:
        self._stream = stream
        self._error = error
        self._outputs_left = outputs_left

    def __aiter__(self) -> AsyncIterator[StepOutput]:
        return self

    async def __anext__(self) -> StepOutput:
        if self._outputs_left == 0:
            raise self._error
        self._outputs_left -= 1
        return await self._stream.__anext__()

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def client_of(engine: Engine, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    await engine.start()
    store = MemoryResponseStore(Limits(max_count=10, max_bytes=1_000_000))
    application = build_application(build_services(engine, ServerConfig(model_names=("m",), **settings), store))
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EngineError("the engine broke; restart it", code="engine_failed"), 500, "engine_failed"),
        (EngineError("the engine is full", code="engine_overloaded"), 503, "engine_overloaded"),
        (RuntimeError("secret detail"), 500, "internal_error"),
    ],
)
async def test_a_failure_before_the_first_token_has_a_status(
    error: Exception, status: int, code: str, stream: bool
) -> None:
    async with client_of(FailingEngine(error, fails_at=0)) as client:
        response = await client.post(CHAT, json=body(stream=stream))
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert "secret" not in response.text


@pytest.mark.parametrize("error", [EngineError("broke", code="engine_failed"), RuntimeError("secret detail")])
async def test_a_failure_in_mid_stream_is_an_event(error: Exception) -> None:
    engine = FailingEngine(error, fails_at=2)
    async with client_of(engine) as client:
        response = await client.post(CHAT, json=body(stream=True))
    assert response.status_code == 200
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    assert json.loads(events[-1])["error"]["message"]
    assert "secret" not in response.text
    assert engine.health().running == 0


async def test_a_failure_in_the_middle_of_a_plain_answer_has_a_status() -> None:
    async with client_of(FailingEngine(RuntimeError("secret detail"), fails_at=2)) as client:
        response = await client.post(CHAT, json=body())
    assert response.status_code == 500
    assert "secret" not in response.text


async def test_silence_is_filled_with_comments() -> None:
    engine = ScriptedEngine(
        lambda request: Script(token_ids=ANSWER, tokens_per_step=len(ANSWER), delay_seconds=0.1), MODEL
    )
    async with client_of(engine, keep_alive_seconds=0.01) as client:
        response = await client.post(CHAT, json=body(stream=True))
    assert response.text.startswith(":")
    assert "answer" in response.text and response.text.rstrip().endswith("data: [DONE]")


async def test_health_is_a_503_until_the_engine_is_ready() -> None:
    engine = ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)
    async with client_of(engine) as client:
        assert (await client.get("/health")).json()["ready"] is True
        await engine.stop()
        stopped = await client.get("/health")
        assert (stopped.status_code, stopped.json()["ready"]) == (503, False)
        refused = await client.post(CHAT, json=body())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_stopped")


async def test_metrics_count_requests_and_tokens() -> None:
    async with client_of(ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)) as client:
        await client.post(CHAT, json=body())
        await client.post(CHAT, json=body(max_tokens=-1))
        await client.get("/nowhere")
        text = (await client.get("/metrics")).text
    assert f'deepinfer_requests_total{{route="{CHAT}",status="200"}} 1.0' in text
    assert f'deepinfer_requests_total{{route="{CHAT}",status="400"}} 1.0' in text
    assert 'deepinfer_requests_total{route="unmatched",status="404"} 1.0' in text
    assert f"deepinfer_completion_tokens_total {len(ANSWER)}.0" in text
    assert "deepinfer_time_to_first_token_seconds_count 1.0" in text


async def test_a_history_that_comes_again_is_not_tokenised_again() -> None:
    text = "A question that is long enough to be kept. " * 20
    async with client_of(ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)) as client:
        for _ in range(3):
            assert (await client.post(CHAT, json=body(messages=[{"role": "user", "content": text}]))).status_code == 200
        metrics = (await client.get("/metrics")).text
    counts = dict(re.findall(r"^deepinfer_codec_cache_(\w+) (\S+)$", metrics, re.MULTILINE))
    assert float(counts["hit_bytes_total"]) == 2 * float(counts["missed_bytes_total"]) >= 2 * len(text)
    assert float(counts["bytes"]) > len(text)


async def test_images_are_refused() -> None:
    content = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    async with client_of(ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)) as client:
        image = await client.post(CHAT, json=body(messages=[{"role": "user", "content": content}]))
    assert (image.status_code, image.json()["error"]["code"]) == (400, "images_not_supported")


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        (
            CHAT,
            {"frequency_penalty": 0.5, "presence_penalty": -1},
            {"frequency_penalty": 0.5, "presence_penalty": -1.0},
        ),
        (CHAT, {"logit_bias": {"5": 1, "7": -100}}, {"logit_bias": {5: 1.0, 7: -100.0}}),
        ("/v1/messages", {"max_tokens": 9, "top_k": 5}, {"top_k": 5}),
        ("/v1/messages", {"max_tokens": 9, "top_k": 0}, {"top_k": None}),
        (
            "/v1/completions",
            {"prompt": "a", "top_k": -1, "min_p": 0.5, "repetition_penalty": 1.5, "logit_bias": {"5": 2}},
            {"top_k": None, "min_p": 0.5, "repetition_penalty": 1.5, "logit_bias": {5: 2.0}},
        ),
        (
            "/v1/completions",
            {"prompt": "a", "top_k": 3, "presence_penalty": 2, "frequency_penalty": -2},
            {"top_k": 3, "presence_penalty": 2.0, "frequency_penalty": -2.0},
        ),
    ],
)
async def test_settings_of_sampling_reach_the_engine(
    path: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    seen: list[Request] = []

    def choose(request: Request) -> Script:
        seen.append(request)
        return Script(token_ids=ANSWER)

    async with client_of(ScriptedEngine(choose, MODEL)) as client:
        assert (await client.post(path, json=body(**fields))).status_code == 200
    [request] = seen
    assert {name: getattr(request.sampling, name) for name in expected} == expected


TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]


@pytest.mark.parametrize("tokens_per_step", [1, 1000])
async def test_an_answer_of_one_call_ends_with_it(tokens_per_step: int) -> None:
    calls = "".join(f'<｜DSML｜ invoke name="{name}">\n\n</｜DSML｜ invoke>\n' for name in ("f", "g"))
    text = f"thought</think>\n\n<｜DSML｜ calls>\n{calls}</｜DSML｜ calls>"
    ids = tuple(recipe.Tokenizer.built_in("v4.1").encode(text, special=True))
    engine = ScriptedEngine(lambda request: Script(token_ids=ids, tokens_per_step=tokens_per_step), MODEL)
    async with client_of(engine) as client:
        both = await client.post(CHAT, json=body(tools=TOOLS))
        one = await client.post(CHAT, json=body(tools=TOOLS, parallel_tool_calls=False))
    names = [
        [call["function"]["name"] for call in answer.json()["choices"][0]["message"]["tool_calls"]]
        for answer in (both, one)
    ]
    assert names == [["f", "g"], ["f"]]
    assert one.json()["choices"][0]["finish_reason"] == "tool_calls"
    assert engine.health().running == 0


@pytest.mark.parametrize("path", [CHAT, "/v1/messages/count_tokens", "/v1/responses/input_tokens", "/tokenize"])
async def test_others_are_answered_while_a_long_prompt_is_tokenised(path: str) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 50_000
    long = {"model": "m", "input": text} if "responses" in path else body(messages=[{"role": "user", "content": text}])
    async with client_of(ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)) as client:
        posting = asyncio.create_task(client.post(path, json=long))
        await asyncio.sleep(0)
        for _ in range(3):
            assert (await client.get("/health")).status_code == 200
        assert not posting.done()
        await posting


async def test_with_a_history_key_the_model_gets_its_own_tokens_back() -> None:
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    written = tokenizer.encode("Unbel") + tokenizer.encode("ievable!")
    assert written != tokenizer.encode("Unbelievable!")
    prompts: list[list[int]] = []

    def choose(request: Request) -> Script:
        prompts.append(list(request.token_ids))
        return Script(token_ids=(*written, 1))

    async def second_prompt(**settings: Any) -> list[int]:
        async with client_of(ScriptedEngine(choose, MODEL), **settings) as client:
            first = {"model": "m", "input": "Hello", "reasoning": {"effort": "none"}}
            response = (await client.post("/v1/responses", json=first)).json()
            await client.post("/v1/responses", json=first | {"previous_response_id": response["id"]})
        return prompts[-1]

    assert not holds(await second_prompt(), written)
    assert holds(await second_prompt(history_key=bytes(16)), written)


def holds(ids: list[int], part: list[int]) -> bool:
    return any(ids[place : place + len(part)] == part for place in range(len(ids)))


class BusyEngine(ScriptedEngine):
    """An engine in whose queue many wait."""

    def health(self) -> Health:
        return replace(super().health(), waiting=50)


async def test_a_long_queue_turns_requests_away_in_each_protocols_words() -> None:
    engine = BusyEngine(lambda request: Script(token_ids=ANSWER), MODEL)
    async with client_of(engine, max_waiting=50) as client:
        chat = await client.post(CHAT, json=body())
        messages = await client.post("/v1/messages", json=body(max_tokens=9))
    assert (chat.status_code, chat.json()["error"]["code"]) == (503, "engine_overloaded")
    assert (messages.status_code, messages.json()["error"]["type"]) == (529, "overloaded_error")
    assert chat.headers["retry-after"] == messages.headers["retry-after"] == "1"
    async with client_of(engine, max_waiting=51) as client:
        response = await client.post(CHAT, json=body())
    assert (response.status_code, response.headers["x-deepinfer-queue-position"]) == (200, "50")


async def test_a_server_about_to_end_is_well_but_not_ready() -> None:
    engine = ScriptedEngine(lambda request: Script(token_ids=ANSWER), MODEL)
    await engine.start()
    services = build_services(engine, ServerConfig(model_names=("m",)), None)
    transport = httpx.ASGITransport(build_application(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/ready")).status_code == 200
        services.live.draining = True
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 200


async def test_a_response_that_fails_in_the_background_says_why() -> None:
    engine = FailingEngine(EngineError("the engine broke", code="engine_failed"), fails_at=0)
    async with client_of(engine) as client:
        found = (await client.post("/v1/responses", json={"model": "m", "input": "x", "background": True})).json()
        while found["status"] in ("queued", "in_progress"):
            await asyncio.sleep(0.01)
            found = (await client.get(f"/v1/responses/{found['id']}")).json()
    assert (found["status"], found["background"], found["error"]["message"]) == ("failed", True, "the engine broke")
