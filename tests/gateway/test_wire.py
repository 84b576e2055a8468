"""From an upstream of any kind to what clients get, through the server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import deepseek_recipe as recipe
from deepinfer.backends.remote.dialects import GrammarForm
from deepinfer.errors import EngineError
from deepinfer.server.app import build_application
from deepinfer.server.config import ServerConfig
from deepinfer.server.services import build_services
from tests.gateway.peer import END, Asked, Handler, Peer, config, gateway, listening

TOKENIZER = recipe.Tokenizer.built_in("v4.1")
CERTIFICATE = Path(__file__).with_name("localhost.pem")
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
CALL = """<｜DSML｜ invoke name="get_weather">
<｜DSML｜ parameter name="city" string="true">Oslo</｜DSML｜ parameter>
</｜DSML｜ invoke>
"""
CALLS = f"Thought.</think>Look:\n\n<｜DSML｜ calls>\n{CALL}{CALL}</｜DSML｜ calls>"
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY}}


@asynccontextmanager
async def client_of(peer: Peer, **fields: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with listening(peer), gateway(peer, **fields) as engine:
        application = build_application(build_services(engine, ServerConfig(model_names=("m",)), None))
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 200, **fields}


def telling(text: str, *, size: int = 3, cached: int | None = None) -> Handler:
    """Answers with a text, `size` tokens an event, as vLLM would with ids and without."""
    ids = [*TOKENIZER.encode(text, special=True), END]

    async def act(asked: Asked) -> None:
        asked.begin()
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            finish = "stop" if start + size >= len(ids) else None
            if asked.json.get("skip_special_tokens") is False:
                shown = TOKENIZER.decode([token_id for token_id in part if token_id != END])
                asked.event({"choices": [{"index": 0, "text": shown, "finish_reason": finish}]})
            else:
                asked.tokens(*part, finish=finish)
        details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
        asked.event({"choices": [], "usage": {"completion_tokens": len(ids), **details}})
        asked.end()

    return act


@pytest.mark.parametrize("stream", [True, False])
async def test_cached_tokens_that_are_told_at_the_end_reach_all_protocols(stream: bool) -> None:
    async with client_of(Peer(telling("T.</think>Hi", cached=7))) as client:
        body = chat(stream=stream, stream_options={"include_usage": True} if stream else None)
        assert '"cached_tokens":7' in (await client.post(CHAT, json=body)).text
        answer = (await client.post(MESSAGES, json=chat(stream=stream))).text
        assert '"cache_read_input_tokens":7' in answer
        answer = (await client.post(RESPONSES, json={"model": "m", "input": "Hello", "stream": stream})).text
        assert '"input_tokens_details":{"cached_tokens":7}' in answer
        metrics = (await client.get("/metrics")).text
        assert "deepinfer_cached_prompt_tokens_total 21.0" in metrics


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("kind", ["ids", "text", "words"])
async def test_calls_are_read_from_ids_and_from_text(kind: str, size: int) -> None:
    peer = Peer(telling(CALLS, size=size), kind=kind)
    async with client_of(peer, spell=TOKENIZER.decode) as client:
        for parallel, count in ((True, 2), (False, 1)):
            answer = (await client.post(CHAT, json=chat(tools=TOOLS, parallel_tool_calls=parallel))).json()
            message = answer["choices"][0]["message"]
            assert (message["reasoning_content"], message["content"]) == ("Thought.", "Look:")
            calls = [call["function"] for call in message["tool_calls"]]
            assert calls == [{"name": "get_weather", "arguments": '{"city": "Oslo"}'}] * count
        assert answer["usage"]["completion_tokens"] > 10
    prompt = peer.generated[0].json["prompt"]
    assert isinstance(prompt, str) is (kind == "words")
    if kind == "words":
        assert prompt.startswith("<｜begin▁of▁sentence｜>") and "<｜User｜>Hello<｜Assistant｜>" in prompt


async def test_a_text_upstream_serves_text_completions() -> None:
    async with client_of(Peer(telling("one two three", size=1), kind="text")) as client:
        body = {"model": "m", "prompt": "count", "max_tokens": 20}
        answer = (await client.post("/v1/completions", json=body)).json()
        assert (answer["choices"][0]["text"], answer["usage"]["completion_tokens"]) == ("one two three", 4)
        cut = (await client.post("/v1/completions", json=body | {"stop": " three", "stream": True})).text
        assert "two" in cut and "three" not in cut


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"response_format": SCHEMA}, "grammar_not_supported", "response_format"),
        ({"tools": TOOLS, "tool_choice": "required"}, "grammar_not_supported", "tools"),
        ({"logprobs": True}, "sampling_not_supported", "log probabilities"),
        ({"max_thinking_tokens": 50}, "sampling_not_supported", "limits of thinking"),
    ],
)
async def test_what_a_text_upstream_cannot_do_is_refused(fields: dict[str, Any], code: str, words: str) -> None:
    peer = Peer(telling("T.</think>Hi"), kind="text")
    async with client_of(peer) as client:
        answer = await client.post(CHAT, json=chat(**fields))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
        assert words in answer.json()["error"]["message"] and peer.origin.url in answer.json()["error"]["message"]
        assert not peer.generated


async def test_plain_tools_go_without_their_grammar_where_there_is_none() -> None:
    peer = Peer(telling(CALLS))
    async with client_of(peer) as client:
        answer = (await client.post(CHAT, json=chat(tools=TOOLS))).json()
        assert len(answer["choices"][0]["message"]["tool_calls"]) == 2
        assert len(peer.generated) == 1 and "structured_outputs" not in peer.generated[0].json


async def test_a_format_after_thinking_takes_two_requests() -> None:
    thought = [*TOKENIZER.encode("Deep thought.</think>", special=True)]
    content = [*TOKENIZER.encode('{"city": "Oslo"}'), END]

    async def act(asked: Asked) -> None:
        asked.begin()
        asked.tokens(*(content if "structured_outputs" in asked.json else thought), finish="stop")
        cached = 20 if "structured_outputs" in asked.json else 3
        usage = {"completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}
        asked.event({"choices": [], "usage": usage})
        asked.end()

    peer = Peer(act, grammars=True)
    async with client_of(peer) as client:
        answer = (await client.post(CHAT, json=chat(response_format=SCHEMA))).json()
    message, usage = answer["choices"][0]["message"], answer["usage"]
    assert (message["reasoning_content"], message["content"]) == ("Deep thought.", '{"city": "Oslo"}')
    assert usage["completion_tokens"] == len(thought) + len(content)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3
    first, second = (asked.json for asked in peer.generated)
    assert second["prompt"] == first["prompt"] + thought
    assert first["stop_token_ids"] == [END, thought[-1]] and second["stop_token_ids"] == [END]
    assert second["max_tokens"] == 200 - len(thought)


@pytest.mark.parametrize(
    ("peer", "name", "form"),
    [
        (Peer(telling("x")), "completions with token ids", GrammarForm.NONE),
        (Peer(telling("x"), grammars=True), "completions with token ids", GrammarForm.FROM_THE_START),
        (Peer(telling("x"), grammars=True, intersections=False), "completions with token ids", GrammarForm.NONE),
        (Peer(telling("x"), kind="sglang"), "SGLang", GrammarForm.NONE),
        (Peer(telling("x"), kind="sglang", grammars=True), "SGLang", GrammarForm.FROM_THE_START),
        (Peer(telling("x"), kind="text"), "completions without token ids", GrammarForm.NONE),
        (
            Peer(telling("x"), models=[{"id": "m", "owned_by": "deepinfer", "max_model_len": 9}]),
            "deepinfer",
            GrammarForm.WHOLE,
        ),
    ],
)
async def test_upstreams_are_told_apart(peer: Peer, name: str, form: GrammarForm) -> None:
    async with listening(peer), gateway(peer, context_length=1000) as engine:
        found = engine.upstreams[0].found
        assert found is not None
        assert (found.dialect.name, found.dialect.features.grammar) == (name, form)
        # Whatever is lost is said.
        assert bool(found.warnings) == (form is GrammarForm.NONE)


async def test_a_model_that_an_upstream_lacks_is_named() -> None:
    async with listening(Peer(telling("x"))) as peer:
        with pytest.raises(EngineError, match="does not serve 'other' but tiny"):
            async with gateway(peer, model="other"):
                pass


async def test_without_a_context_length_there_is_no_start() -> None:
    async with listening(Peer(telling("x"), models=[{"id": "tiny"}])) as peer:
        with pytest.raises(EngineError, match="--context-length"):
            async with gateway(peer):
                pass
        async with gateway(peer, context_length=50) as engine:
            assert engine.describe().context_length == 50


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificates_are_verified(trusted: bool) -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(CERTIFICATE)
    trust = ssl.create_default_context(cafile=str(CERTIFICATE) if trusted else None)
    async with listening(Peer(telling("T.</think>Hi"), host="localhost", tls=served)) as peer:
        if not trusted:
            with pytest.raises(EngineError, match="certificate is not trusted"):
                async with gateway(peer, tls=trust):
                    pass
            return
        async with gateway(peer, tls=trust) as engine:
            assert engine.health().ready and engine.upstreams[0].name.startswith("https://localhost:")


def test_no_key_is_shown() -> None:
    settings = config(Peer(telling("x"), port=5), api_key="sk-secret")
    assert "sk-secret" not in repr(settings)
    assert settings.api_key == "sk-secret"
