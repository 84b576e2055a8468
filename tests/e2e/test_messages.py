"""Messages with the official client, streaming and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types import Message

from tests.e2e.server_process import ServerProcess

WEATHER_TOOL: Any = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}


@pytest.fixture
def client(scripted_server: ServerProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=scripted_server.url, api_key="none", max_retries=0) as client:
        yield client


def body(question: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {"model": "deepinfer-tiny", "max_tokens": 4000, "messages": messages, "tools": [WEATHER_TOOL], **fields}


def visible(message: Message) -> list[tuple[str, Any]]:
    """What a client sees of an answer, without the ids that differ from call to call."""
    seen: list[tuple[str, Any]] = []
    for block in message.content:
        match block.type:
            case "thinking":
                seen.append(("thinking", block.thinking))
            case "text":
                seen.append(("text", block.text))
            case "tool_use":
                seen.append(("tool_use", (block.name, block.input)))
    return seen


def test_thinking_text_and_tool_use_come_as_blocks(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**body("How is the weather?"))
    assert message.stop_reason == "tool_use"
    assert visible(message) == [
        ("thinking", "The user asks about the weather, so I call the tool."),
        ("text", "I will look it up."),
        ("tool_use", ("get_weather", {"city": "Paris", "days": 2})),
    ]


@pytest.mark.parametrize("question", ["How is the weather?", "Hello"])
def test_accumulated_stream_equals_plain_answer(client: anthropic.Anthropic, question: str) -> None:
    # From the second time on, the prompt is cached.
    client.messages.create(**body(question))
    plain = client.messages.create(**body(question))
    with client.messages.stream(**body(question)) as stream:
        final = stream.get_final_message()
    assert visible(final) == visible(plain)
    assert final.stop_reason == plain.stop_reason
    assert (final.usage.input_tokens, final.usage.output_tokens) == (
        plain.usage.input_tokens,
        plain.usage.output_tokens,
    )


def test_tool_loop_ends_with_an_answer(client: anthropic.Anthropic) -> None:
    request = body("How is the weather?")
    first = client.messages.create(**request)
    (call,) = (block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 21}'}
    request["messages"] += [
        {"role": "assistant", "content": [block.model_dump() for block in first.content]},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(**request)
    assert second.stop_reason == "end_turn"
    assert visible(second)[-1] == ("text", "It is 21 degrees and sunny in Paris.")


def test_stop_sequence_is_reported(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**body("never end", stop_sequences=["so on"]))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "so on")
    assert visible(message)[-1] == ("text", "and ")


def test_cut_answer_says_so(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**body("Hello", max_tokens=2))
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 2


def test_native_answers(native_server: ServerProcess) -> None:
    with anthropic.Anthropic(base_url=native_server.url, api_key="none", max_retries=0) as client:
        message = client.messages.create(**body("Hello", max_tokens=20, thinking={"type": "disabled"}, tools=[]))
        assert message.usage.output_tokens == 20


def test_counted_tokens_are_the_used_ones(client: anthropic.Anthropic) -> None:
    request = body("Hello")
    count = client.messages.count_tokens(model=request["model"], messages=request["messages"], tools=request["tools"])
    usage = client.messages.create(**request).usage
    assert count.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_models_are_listed(client: anthropic.Anthropic) -> None:
    assert [model.id for model in client.models.list()] == ["deepinfer-tiny"]
    assert client.models.retrieve("deepinfer-tiny").display_name == "deepinfer-tiny"


def test_errors_are_the_clients_exceptions(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**body("Hello", model="gpt-9"))
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**body("Hello", max_tokens=0))
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**{**body("Hello"), "messages": []})
    assert caught.value.status_code == 400
