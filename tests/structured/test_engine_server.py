"""Structured output over HTTP, by the official clients, from a model with random weights."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import httpx
import openai
import pytest
from pydantic import BaseModel, Field

from tests.e2e.server_process import ServerProcess, chat_body, eventually

pytestmark = pytest.mark.timeout(180)

MODEL = "deepinfer-tiny"
QUESTION = "Describe a place in json."


class Place(BaseModel):
    """What clients ask for: all of it bounded, as the model ends nothing of its own accord."""

    name: str = Field(min_length=1, max_length=12)
    kind: Literal["city", "lake", "hill"]
    height: int = Field(ge=-500, le=9000)
    tags: list[Literal["old", "new"]] = Field(max_length=3)
    note: str | None = Field(max_length=8)


class Habit(BaseModel):
    """The same for a client that sends no lengths and no bounds."""

    kind: Literal["city", "lake", "hill"]
    is_old: bool
    season: Literal["summer", "winter"] | None


SCHEMA: dict[str, Any] = Place.model_json_schema() | {"additionalProperties": False}
LARK = 'start: NUMBER (OPERATOR NUMBER){1,2}\nOPERATOR: "+" | "*"\nNUMBER: /[1-9][0-9]{0,3}/'
SUM = re.compile(r"[1-9][0-9]{0,3}([+*][1-9][0-9]{0,3}){1,2}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture(scope="module")
def openai_client(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def anthropic_client(server: ServerProcess) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
def test_chat_completions_are_parsed(openai_client: openai.OpenAI, thinking: str) -> None:
    body = chat_body(QUESTION, max_tokens=400, extra_body={"thinking": {"type": thinking}})
    answer = openai_client.chat.completions.parse(response_format=Place, **body)
    assert isinstance(answer.choices[0].message.parsed, Place)
    assert answer.choices[0].finish_reason == "stop"
    with openai_client.chat.completions.stream(response_format=Place, **body) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Place)


@pytest.mark.parametrize("effort", ["high", "none"])
def test_responses_are_parsed(openai_client: openai.OpenAI, effort: Any) -> None:
    answer = openai_client.responses.parse(
        model=MODEL, input=QUESTION, text_format=Place, reasoning={"effort": effort}, max_output_tokens=400
    )
    assert isinstance(answer.output_parsed, Place)
    assert answer.status == "completed"
    assert any(item.type == "reasoning" for item in answer.output) == (effort == "high")


@pytest.mark.parametrize("thinks", [True, False])
def test_messages_are_parsed(anthropic_client: anthropic.Anthropic, thinks: bool) -> None:
    thinking: Any = {"type": "enabled", "budget_tokens": 100} if thinks else {"type": "disabled"}
    answer = anthropic_client.messages.parse(
        model=MODEL,
        max_tokens=400,
        messages=[{"role": "user", "content": QUESTION}],
        output_format=Habit,
        thinking=thinking,
    )
    assert isinstance(answer.parsed_output, Habit)
    assert answer.stop_reason == "end_turn"


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "move"}}], ids=["required", "named"]
)
@pytest.mark.parametrize("strict", [True, None])
def test_chat_calls_are_made(openai_client: openai.OpenAI, choice: Any, thinking: str, strict: bool | None) -> None:
    functions: list[Any] = [
        {"name": "place", "parameters": SCHEMA, "strict": strict},
        {"name": "move", "parameters": SCHEMA, "strict": strict},
    ]
    answer = openai_client.chat.completions.create(
        **chat_body(QUESTION, max_tokens=500),
        tools=[{"type": "function", "function": function} for function in functions],
        tool_choice=choice,
        parallel_tool_calls=False,
        extra_body={"thinking": {"type": thinking}},
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name in ({"place", "move"} if choice == "required" else {"move"})
    Place.model_validate_json(call.function.arguments)


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
def test_only_allowed_tools_are_called(openai_client: openai.OpenAI, thinking: str) -> None:
    move: Any = {"type": "function", "function": {"name": "move"}}
    answer = openai_client.chat.completions.create(
        **chat_body(QUESTION, max_tokens=500),
        tools=[
            {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("place", "stay", "move")
        ],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [move]}},
        parallel_tool_calls=False,
        extra_body={"thinking": {"type": thinking}},
    )
    [call] = answer.choices[0].message.tool_calls or []
    assert (call.type, answer.choices[0].finish_reason) == ("function", "tool_calls")
    assert call.function.name == "move"
    Place.model_validate_json(call.function.arguments)


def test_arguments_of_a_strict_tool_are_right_every_time(server: ServerProcess) -> None:
    """A hundred calls, with a seed each."""
    function: Any = {"name": "place", "parameters": SCHEMA, "strict": True}

    async def call(client: openai.AsyncOpenAI, seed: int) -> None:
        answer = await client.chat.completions.create(
            **chat_body(QUESTION, max_tokens=500),
            tools=[{"type": "function", "function": function}],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=seed,
            extra_body={"thinking": {"type": "disabled"}},
        )
        [call] = answer.choices[0].message.tool_calls or []
        assert call.type == "function"
        Place.model_validate_json(call.function.arguments)

    async def call_all() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            await asyncio.gather(*(call(client, seed) for seed in range(100)))

    asyncio.run(call_all())


def test_any_makes_a_call_every_time(anthropic_client: anthropic.Anthropic) -> None:
    for number in range(10):
        answer = anthropic_client.messages.create(
            model=MODEL,
            max_tokens=60,
            messages=[{"role": "user", "content": f"{number}. {QUESTION}"}],
            # An open object would let it write parameters of its own without end.
            tools=[{"name": "now", "input_schema": {"type": "object", "additionalProperties": False}}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        )
        assert answer.stop_reason == "tool_use"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "move"}], ids=["any", "named"])
def test_messages_calls_are_made(anthropic_client: anthropic.Anthropic, choice: Any) -> None:
    answer = anthropic_client.messages.create(
        model=MODEL,
        max_tokens=500,
        messages=[{"role": "user", "content": QUESTION}],
        tools=[{"name": name, "input_schema": SCHEMA} for name in ("place", "move")],
        tool_choice=choice | {"disable_parallel_tool_use": True},
    )
    assert answer.stop_reason == "tool_use"
    [call] = [block for block in answer.content if block.type == "tool_use"]
    assert call.name in ({"place", "move"} if choice["type"] == "any" else {"move"})
    Place.model_validate(call.input)


@pytest.mark.parametrize("effort", ["high", "none"])
def test_custom_tools_keep_to_their_grammars(openai_client: openai.OpenAI, effort: Any) -> None:
    tool: Any = {
        "type": "custom",
        "name": "calculate",
        "format": {"type": "grammar", "syntax": "lark", "definition": LARK},
    }
    answer = openai_client.responses.create(
        model=MODEL,
        input=QUESTION,
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        reasoning={"effort": effort},
        max_output_tokens=300,
    )
    [call] = [item for item in answer.output if item.type == "custom_tool_call"]
    assert SUM.fullmatch(call.input), call.input


def test_a_grammar_that_cannot_be_compiled_is_refused_before_the_stream_begins(openai_client: openai.OpenAI) -> None:
    tool: Any = {
        "type": "custom",
        "name": "calculate",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: nothing"},
    }
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refusal:
            openai_client.responses.create(model=MODEL, input="Hi", tools=[tool], tool_choice="required", stream=stream)
        assert (refusal.value.code, refusal.value.param) == ("invalid_grammar", "tools")
        assert "nothing" in refusal.value.message


def test_a_dead_end_ends_a_stream_with_an_error(server: ServerProcess) -> None:
    """The grammar allows "a", after which nothing can follow."""
    grammar = 'start: "a" (X | Y)\nX: /bc/ & /bd/\nY: /cc/ & /cd/'
    body = chat_body("Hi", structured_outputs={"grammar": grammar}, thinking={"type": "disabled"}, stream=True)
    response = server.http.post("/v1/chat/completions", json=body)
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    error = json.loads(events[-1 if events[-1] != "[DONE]" else -2])["error"]
    assert error["code"] == "grammar_dead_end"
    assert error["message"].startswith("structured_outputs: ")
    assert server.health()["running"] == 0


HOSTILE: dict[str, dict[str, Any]] = {
    "names": {"json": {"enum": [f"value number {number} of many" for number in range(5_000)]}},
    "options": {"grammar": "start: /" + "(a|b)?" * 4_000 + "/"},
    "counts": {"regex": "((((a{1,50}){1,50}){1,50}){1,50})"},
    "rules": {"grammar": 'start: r0\nr4000: "a"\n' + "\n".join(f"r{n}: r{n + 1} r{n + 1}" for n in range(4_000))},
    "depth": {"grammar": "start: " + "(" * 9_000 + '"a"' + ")" * 9_000},
    "loop": {"json": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}},
    "tree": {
        "json": {
            "$ref": "#/$defs/t",
            "$defs": {"t": {"type": "object", "properties": {"l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}}},
        }
    },
}


def test_others_are_answered_while_hostile_grammars_compile(server: ServerProcess) -> None:
    """A stream goes on while each of them is dealt with, and the server is well afterwards."""
    tokens = 0
    ended = threading.Event()

    def stream() -> None:
        nonlocal tokens
        body = chat_body("Hi", max_tokens=30_000, ignore_eos=True, stream=True, thinking={"type": "disabled"})
        with (
            httpx.Client(base_url=server.url, timeout=60) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as response,
        ):
            for line in response.iter_lines():
                tokens += line.startswith("data: ")
                if ended.is_set():
                    return

    reader = threading.Thread(target=stream)
    reader.start()
    try:
        eventually(lambda: tokens > 2)
        for name, wanted in HOSTILE.items():
            before = tokens
            body = chat_body("Hi", max_tokens=5, structured_outputs=wanted, thinking={"type": "disabled"})
            response = server.http.post("/v1/chat/completions", json=body, timeout=60)
            assert response.status_code in (200, 400), (name, response.text)
            if response.status_code == 400:
                assert response.json()["error"]["code"] in {
                    "grammar_too_complex",
                    "grammar_dead_end",
                    "invalid_grammar",
                    "invalid_regex",
                    "unsupported_schema",
                }, name
            eventually(lambda before=before: tokens > before)  # type: ignore[misc]
        assert server.health()["ready"]
    finally:
        ended.set()
        reader.join()
    eventually(lambda: server.health()["running"] == 0)
