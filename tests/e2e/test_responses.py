"""Responses with the official client, streaming and not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.e2e.server_process import ServerProcess

WEATHER_TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}


@pytest.fixture
def client(scripted_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def visible(response: Response) -> list[tuple[str, Any]]:
    """What a client sees of an answer, without the ids that differ from call to call."""
    seen: list[tuple[str, Any]] = []
    for item in response.output:
        match item.type:
            case "reasoning":
                seen.append(("reasoning", "".join(part.text for part in item.content or [])))
            case "message":
                seen.append(("message", "".join(getattr(part, "text", "") for part in item.content)))
            case "function_call":
                seen.append(("call", (item.name, json.loads(item.arguments))))
    return seen


def test_reasoning_text_and_call_come_as_items(client: openai.OpenAI) -> None:
    response = client.responses.create(model="deepinfer-tiny", input="How is the weather?", tools=[WEATHER_TOOL])
    assert response.status == "completed"
    assert visible(response) == [
        ("reasoning", "The user asks about the weather, so I call the tool."),
        ("message", "I will look it up."),
        ("call", ("get_weather", {"city": "Paris", "days": 2})),
    ]
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@pytest.mark.parametrize("question", ["How is the weather?", "Hello"])
def test_accumulated_stream_equals_plain_answer(client: openai.OpenAI, question: str) -> None:
    plain = client.responses.create(model="deepinfer-tiny", input=question, tools=[WEATHER_TOOL])
    with client.responses.stream(model="deepinfer-tiny", input=question, tools=[WEATHER_TOOL]) as stream:
        numbers = [event.sequence_number for event in stream]
        final = stream.get_final_response()
    assert numbers == list(range(len(numbers)))
    assert visible(final) == visible(plain)
    assert final.usage == plain.usage


def test_tool_loop_ends_with_an_answer(client: openai.OpenAI) -> None:
    first = client.responses.create(model="deepinfer-tiny", input="How is the weather?", tools=[WEATHER_TOOL])
    (call,) = (item for item in first.output if item.type == "function_call")
    history: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 21}'})
    second = client.responses.create(model="deepinfer-tiny", input=history, tools=[WEATHER_TOOL])
    assert second.output_text == "It is 21 degrees and sunny in Paris."


def test_cut_answer_is_incomplete(client: openai.OpenAI) -> None:
    response = client.responses.create(model="deepinfer-tiny", input="Hello", max_output_tokens=2)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_native_answers(native_server: ServerProcess) -> None:
    with openai.OpenAI(base_url=f"{native_server.url}/v1", api_key="none", max_retries=0) as client:
        response = client.responses.create(
            model="deepinfer-tiny", input="Hello", max_output_tokens=20, reasoning={"effort": "none"}
        )
        assert response.output_text
        assert response.usage is not None and response.usage.output_tokens == 20


def test_input_tokens_are_counted(client: openai.OpenAI) -> None:
    count = client.responses.input_tokens.count(model="deepinfer-tiny", input="Hello")
    response = client.responses.create(model="deepinfer-tiny", input="Hello")
    assert response.usage is not None and count.input_tokens == response.usage.input_tokens


def test_errors_are_the_clients_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt-9", input="Hello")
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="deepinfer-tiny", input="Hello", max_output_tokens=-1)
