"""What clients of Responses rely on: one test a need, with the official client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pydantic
import pytest

from tests.e2e.needs.conftest import MODEL, LoggingServer
from tests.e2e.needs.test_chat_completions import Prompt

LOOK: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PING: Any = {"type": "function", "name": "ping", "parameters": {"type": "object"}}
PATCH: Any = {"type": "custom", "name": "apply_patch", "description": "Edits files", "format": {"type": "text"}}
TOOLS = [LOOK, PING]


def raw_events(server: LoggingServer, **body: Any) -> list[tuple[str, dict[str, Any]]]:
    """Name and content of each event of a stream."""
    text = server.http.post("/v1/responses", json={"model": MODEL, **body, "stream": True}).text
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    parts = [frame.removeprefix("event: ").split("\ndata: ") for frame in frames]
    return [(name, json.loads(data)) for name, data in parts]


def test_events_are_named_numbered_and_end_once(server: LoggingServer) -> None:
    events = raw_events(server, input="look it up", tools=TOOLS)
    assert all(name == content["type"] for name, content in events)
    assert [content["sequence_number"] for _, content in events] == list(range(len(events)))
    terminal = {"response.completed", "response.incomplete", "response.failed"}
    assert [name in terminal for name, _ in events] == [False] * (len(events) - 1) + [True]
    for name, content in events:
        if ".delta" in name:
            assert {"item_id", "output_index"} <= set(content)
        if name.startswith(("response.output_text", "response.reasoning_text", "response.content_part")):
            assert content["content_index"] == 0


def test_an_item_is_the_same_in_all_its_events(server: LoggingServer) -> None:
    events = raw_events(server, input="look it up", tools=TOOLS)
    final = events[-1][1]["response"]["output"]
    assert [item["type"] for item in final] == ["reasoning", "message", "function_call"]
    for index, item in enumerate(final):
        added, done = (
            next(content["item"] for name, content in events if name == kind and content["output_index"] == index)
            for kind in ("response.output_item.added", "response.output_item.done")
        )
        assert done == item
        for member in {"id", "type", "role", "call_id", "name"} & set(item):
            assert added[member] == item[member]
        assert (added["status"], item["status"]) == ("in_progress", "completed")
        ids = {
            content["item_id"] for _, content in events if content.get("output_index") == index and "item_id" in content
        }
        assert ids == {item["id"]}


def test_cut_and_failed_answers_say_so(oa: Any, server: LoggingServer) -> None:
    with oa.responses.stream(model=MODEL, input="hi", max_output_tokens=2) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response() if kinds[-1] == "response.completed" else None
    assert kinds[-1] == "response.incomplete" and response is None
    plain = oa.responses.create(model=MODEL, input="hi", max_output_tokens=2)
    assert (plain.status, plain.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    headers = {"x-request-id": "fail-responses"}
    failing = oa.responses.create(model=MODEL, input="never end", stream=True, extra_headers=headers)
    last = None
    for number, event in enumerate(failing):
        last = event
        if number == 6:
            server.http.delete("/v1/requests/fail-responses")
    assert last is not None and last.type == "response.failed"
    assert last.response.status == "failed" and "cancelled" in last.response.error.message


def test_reasoning_comes_back(oa: Any, prompt_of: Prompt) -> None:
    include = ["reasoning.encrypted_content"]
    first = oa.responses.create(model=MODEL, input="look it up", tools=TOOLS, store=False, include=include)
    reasoning = first.output[0]
    assert reasoning.summary == [] and reasoning.content[0].text == "I look it up."
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Lookup result"}
    history: list[Any] = [{"role": "user", "content": "look it up"}]
    history += [item.to_dict() for item in first.output] + [result]
    prompt = prompt_of(lambda: oa.responses.create(model=MODEL, input=history, tools=TOOLS, store=False))
    assert "I look it up.</think>One moment." in prompt


@pytest.mark.parametrize("output", ["Lookup result", [{"type": "input_text", "text": "Lookup result"}]])
def test_results_come_as_text_or_as_parts_and_in_order(oa: Any, prompt_of: Prompt, output: Any) -> None:
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": "{}"} for n in range(2)]
    results: list[Any] = [
        {"type": "function_call_output", "call_id": f"c{n}", "output": f"number {n}"} for n in range(2)
    ]
    results[1]["output"] = output
    history: list[Any] = [{"role": "user", "content": "look it up"}, *calls, *results]
    prompt = prompt_of(lambda: oa.responses.create(model=MODEL, input=history, tools=TOOLS))
    assert prompt.index("number 0") < prompt.index("Lookup result")


def test_a_custom_tool_takes_and_gives_plain_text(oa: Any, server: LoggingServer) -> None:
    patch = '*** Begin Patch\n+ "quoted" line\n*** End Patch'
    first = oa.responses.create(model=MODEL, input="patch the file", tools=[PATCH])
    call = first.output[-1]
    assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", patch)
    events = raw_events(server, input="patch the file", tools=[PATCH])
    deltas = [content["delta"] for name, content in events if name == "response.custom_tool_call_input.delta"]
    (done,) = (content["input"] for name, content in events if name == "response.custom_tool_call_input.done")
    assert "".join(deltas) == done == patch
    result: Any = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Lookup result"}
    second = oa.responses.create(model=MODEL, input=[result], previous_response_id=first.id, tools=[PATCH])
    assert second.output_text == "Done with the lookup."


def test_developer_items_stay_and_instructions_stand_on_top(oa: Any, prompt_of: Prompt) -> None:
    history: list[Any] = [
        {"role": "user", "content": "first words"},
        {"role": "developer", "content": "a developer's note"},
        {"role": "user", "content": "second words"},
        {"role": "system", "content": "a system note"},
        {"role": "user", "content": "hi"},
    ]
    prompt = prompt_of(lambda: oa.responses.create(model=MODEL, input=history, instructions="the instructions"))
    words = ("the instructions", "first words", "a developer's note", "second words", "a system note")
    places = [prompt.index(word) for word in words]
    assert places == sorted(places)


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_effort_is_repeated(oa: Any, effort: str) -> None:
    events = list(
        oa.responses.create(model=MODEL, input="hi", stream=True, reasoning={"effort": effort, "summary": "auto"})
    )
    for event in (events[0], events[-1]):
        assert (event.response.reasoning.effort, event.response.reasoning.summary) == (effort, "auto")


def test_answers_in_json_are_parsed(oa: Any) -> None:
    class Answer(pydantic.BaseModel):
        colour: str

    response = oa.responses.parse(model=MODEL, input="a colour as json", text_format=Answer)
    assert response.output_parsed == Answer(colour="red")
    assert response.output[0].content[0].text == "A colour."


def test_usage_tells_cached_and_reasoning_tokens(oa: Any) -> None:
    first, second = (oa.responses.create(model=MODEL, input="the same input twice").usage for _ in range(2))
    assert second.input_tokens_details.cached_tokens > 0
    assert first.input_tokens == second.input_tokens
    assert 0 < first.output_tokens_details.reasoning_tokens < first.output_tokens


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "required",
        {"type": "function", "name": "look"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]},
    ],
    ids=str,
)
def test_every_choice_of_tools_is_accepted(oa: Any, choice: Any) -> None:
    response = oa.responses.create(model=MODEL, input="look it up", tools=TOOLS, tool_choice=choice)
    assert response.output[-1].name == "look"
    assert response.tool_choice == choice or response.tool_choice.to_dict() == choice


def test_a_custom_tool_is_chosen_by_name(oa: Any) -> None:
    choice = {"type": "custom", "name": "apply_patch"}
    response = oa.responses.create(model=MODEL, input="patch the file", tools=[PATCH, LOOK], tool_choice=choice)
    assert response.output[-1].type == "custom_tool_call"


def test_the_text_is_that_of_the_messages_and_items_have_their_order(oa: Any) -> None:
    response = oa.responses.create(model=MODEL, input="look it up", tools=TOOLS)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.output_text == "".join(part.text for part in response.output[1].content) == "One moment."


def test_errors_are_the_clients_exceptions(oa: Any) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        oa.responses.create(model="gpt-9", input="hi")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        oa.responses.create(model=MODEL, input="word " * 210_000)
    assert long.value.code == "context_length_exceeded"
