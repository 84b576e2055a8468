"""Chat Completions streams, read by OpenAI's own client over a socket."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

import deepseek_recipe as recipe
from tests.decode.outputs import MODEL, STOP, TOOLS, Output, outputs, prepared
from tests.decode.sdk_server import SdkServer

REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "x"}],
    "stop": [STOP],
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in TOOLS
    ],
}
REUSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def plain(model: BaseModel) -> Any:
    """A model of the client as JSON, checked strictly against its own types."""
    value = json.loads(model.model_dump_json(exclude_unset=True, warnings="none"))
    type(model).model_validate(value)
    return value


def message(choice: Any) -> Any:
    """What a choice says, without what only the client's stream helper adds."""
    said = choice["message"]
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in said.get("tool_calls") or []
    ]
    entries = (choice.get("logprobs") or {}).get("content") or []
    return [
        choice["index"],
        choice["finish_reason"],
        said["content"] or "",
        said.get("reasoning_content"),
        calls,
        entries,
    ]


def folded(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    """The completion that the client's stream helper puts together."""
    try:
        with client.chat.completions.stream(**request) as stream:
            for event in stream:
                if event.type == "chunk":
                    ChatCompletionChunk.model_validate(json.loads(event.chunk.model_dump_json(exclude_unset=True)))
            return json.loads(stream.get_final_completion().model_dump_json(warnings="none"))
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
        assert error.completion is not None
        return json.loads(error.completion.model_dump_json(warnings="none"))


@given(data=st.data())
@REUSE
def test_the_fold_of_the_stream_is_the_completion(
    server: SdkServer, openai_client: openai.OpenAI, data: st.DataObject
) -> None:
    thinking, count = data.draw(st.booleans()), data.draw(st.sampled_from([1, 1, 2]))
    request = REQUEST | {
        "logprobs": data.draw(st.booleans()),
        "thinking": {"type": "enabled" if thinking else "disabled"},
        "stream": True,
        "stream_options": {"include_usage": data.draw(st.booleans())},
    }
    choices = [data.draw(outputs(thinking)) for _ in range(count)]
    server.prepared = prepared(request, "chat_completions", choices, keep_alive=data.draw(st.booleans()))
    asked = {"model": MODEL, "messages": [], "tools": REQUEST["tools"], "n": count}
    whole = plain(openai_client.chat.completions.create(**asked))
    stream = folded(openai_client, asked)
    assert [message(choice) for choice in stream["choices"]] == [message(choice) for choice in whole["choices"]]
    for key in ("id", "model", "created", "usage", "system_fingerprint"):
        assert without_null(stream[key]) == without_null(whole[key])


def without_null(value: Any) -> Any:
    """A value without members that are null: the client adds those that it knows."""
    if not isinstance(value, dict):
        return value
    return {key: without_null(item) for key, item in value.items() if item is not None}


def answer_to(client: openai.OpenAI, server: SdkServer, output: Output, **changes: Any) -> list[ChatCompletionChunk]:
    """The chunks that a client gets."""
    request = REQUEST | {"stream": True, "thinking": {"type": "disabled"}} | changes
    server.prepared = prepared(request, "chat_completions", [output])
    return list(client.chat.completions.create(model=MODEL, messages=[], stream=True))


def test_usage_rides_on_the_last_choice_unless_it_is_asked_for(server: SdkServer, openai_client: openai.OpenAI) -> None:
    output = Output("Hi", "stop", [1])
    *before, last = answer_to(openai_client, server, output)
    assert last.choices[0].finish_reason == "stop" and last.usage is not None
    assert all("usage" not in chunk.model_fields_set for chunk in before)
    *before, last = answer_to(openai_client, server, output, stream_options={"include_usage": True})
    assert last.choices == [] and last.usage is not None
    assert all("usage" in chunk.model_fields_set and chunk.usage is None for chunk in before)


def test_logprobs_have_as_many_alternatives_as_asked_for(server: SdkServer, openai_client: openai.OpenAI) -> None:
    output = Output("Hi there", "stop", [1])
    for changes, count in (({"logprobs": True, "top_logprobs": 1}, 1), ({"logprobs": True}, 0)):
        chunks = answer_to(openai_client, server, output, **changes)
        entries = [
            entry
            for chunk in chunks
            for choice in chunk.choices
            if choice.logprobs
            for entry in choice.logprobs.content or []
        ]
        assert "".join(entry.token for entry in entries) == "Hi there"
        assert {len(entry.top_logprobs) for entry in entries} == {count}


def test_a_failed_answer_raises_the_clients_error(server: SdkServer, openai_client: openai.OpenAI) -> None:
    decoder = recipe.encode(REQUEST | {"stream": True}, "chat_completions").decoder(id="a", created=0, seed=b"s")
    sent = decoder.start() + decoder.push_text("Hi") + decoder.fail("the backend is gone")
    server.prepared.stream = sent
    with pytest.raises(openai.APIError, match="the backend is gone"):
        list(openai_client.chat.completions.create(model=MODEL, messages=[], stream=True))
