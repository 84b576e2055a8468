"""Responses streams, read by OpenAI's own client over a socket."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import Response
from pydantic import BaseModel

import deepseek_recipe as recipe
from tests.decode.outputs import MODEL, Output, outputs, prepared
from tests.decode.sdk_server import SdkServer

EMPTY = {"type": "object", "properties": {}}
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "input": "x",
    "stream": True,
    "tools": [
        {"type": "function", "name": "get_weather", "parameters": EMPTY},
        {"type": "custom", "name": "apply_patch"},
        {
            "type": "namespace",
            "name": "files",
            "description": "Files.",
            "tools": [{"type": "function", "name": "read", "parameters": EMPTY}],
        },
    ],
}
REUSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def prompt_names() -> list[str]:
    """Names of the request's tools as the model knows them."""
    encoded = recipe.encode(REQUEST, "responses")
    return ["get_weather", "apply_patch", *encoded.namespace_tools]


def plain(model: BaseModel) -> Any:
    """A model of the client as JSON."""
    return json.loads(model.model_dump_json(exclude_unset=True, warnings="none"))


def without_helpers(response: Any) -> Any:
    """A response without what only the client's stream helper adds."""
    for item in response["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return response


@given(data=st.data())
@REUSE
def test_the_fold_of_the_stream_is_the_response(
    server: SdkServer, openai_client: openai.OpenAI, data: st.DataObject
) -> None:
    thinking = data.draw(st.booleans())
    request = REQUEST | {"reasoning": {"effort": "high" if thinking else "none"}}
    output = data.draw(outputs(thinking, prompt_names()))
    server.prepared = prepared(request, "responses", [output], keep_alive=data.draw(st.booleans()))
    whole = plain(openai_client.responses.create(model=MODEL, input="x"))
    with openai_client.responses.stream(model=MODEL, input="x") as stream:
        events = list(stream)
        if events[-1].type == "response.completed":
            assert without_helpers(plain(stream.get_final_response())) == without_helpers(json.loads(json.dumps(whole)))
    raw = list(openai_client.responses.create(model=MODEL, input="x", stream=True))
    last = raw[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert plain(last.response) == whole
    assert [event.sequence_number for event in raw] == list(range(len(raw)))
    for event in raw:
        check_types(event)
    check_types(Response.construct(**whole))
    assert joined(raw) == whole["output"]


def check_types(model: BaseModel) -> None:
    """Checks a model strictly against the client's types; DeepSeek's usage has no tokens written to a cache."""
    value = plain(model)
    response = value.get("response", value)
    if response.get("usage"):
        response["usage"]["input_tokens_details"]["cache_write_tokens"] = 0
    type(model).model_validate(value)


def joined(events: list[Any]) -> list[Any]:
    """The items that the events of a stream build, from their starts and deltas alone where these say enough."""
    items: dict[int, Any] = {}
    texts: dict[int, str] = {}
    for event in events:
        if event.type == "response.output_item.added":
            items[event.output_index] = plain(event.item)
            texts[event.output_index] = ""
        elif event.type.endswith(".delta"):
            texts[event.output_index] += event.delta
        elif event.type == "response.output_item.done":
            item = plain(event.item)
            shown = item.get("arguments", item.get("input"))
            if shown is None:
                shown = "".join(part["text"] for part in item["content"])
            assert shown == texts[event.output_index]
            added = items[event.output_index]
            assert {key: added[key] for key in ("id", "type")} == {key: item[key] for key in ("id", "type")}
            assert added.get("call_id") == item.get("call_id") and added.get("name") == item.get("name")
            items[event.output_index] = item
    return [items[index] for index in sorted(items)]


def test_namespaces_and_custom_tools(server: SdkServer, openai_client: openai.OpenAI) -> None:
    _, _, flat = prompt_names()
    block = (
        f'<｜DSML｜ calls>\n<｜DSML｜ invoke name="{flat}">\n</｜DSML｜ invoke>\n<｜DSML｜ invoke name="apply_patch">\n'
        '<｜DSML｜ parameter name="input" string="true">*** Begin\n"</｜DSML｜ parameter>\n'
        "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
    )
    request = REQUEST | {"reasoning": {"effort": "none"}}
    server.prepared = prepared(request, "responses", [Output(block, "stop", [3])])
    read, patch = openai_client.responses.create(model=MODEL, input="x").output
    assert read.type == "function_call" and (read.name, read.namespace) == ("read", "files")
    assert patch.type == "custom_tool_call" and (patch.name, patch.input) == ("apply_patch", '*** Begin\n"')


def test_a_cut_answer_is_incomplete(server: SdkServer, openai_client: openai.OpenAI) -> None:
    block = '<｜DSML｜ calls>\n<｜DSML｜ invoke name="get_weather">\n<｜DSML｜ parameter name="a" string="true">Par'
    for finish in ("length", "stop", None):
        request = REQUEST | {"reasoning": {"effort": "none"}}
        server.prepared = prepared(request, "responses", [Output(block, finish, [3])])
        response = openai_client.responses.create(model=MODEL, input="x")
        (call,) = response.output
        assert call.type == "function_call" and (call.status, call.arguments) == ("incomplete", '{"a": "Par')
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"


def test_a_failed_answer_is_a_failed_response(server: SdkServer, openai_client: openai.OpenAI) -> None:
    decoder = recipe.encode(REQUEST, "responses").decoder(id="a", created=0, seed=b"s")
    server.prepared.stream = decoder.start() + decoder.push_text("Hi") + decoder.fail("the backend is gone")
    *_, last = openai_client.responses.create(model=MODEL, input="x", stream=True)
    assert last.type == "response.failed"
    assert last.response.error is not None and "the backend is gone" in last.response.error.message


@pytest.mark.parametrize(
    ("text", "kinds"),
    [("", []), ("</think>", []), ("so</think>", ["reasoning"]), ("so</think>Hi", ["reasoning", "message"])],
)
def test_items_without_text_do_not_appear(
    server: SdkServer, openai_client: openai.OpenAI, text: str, kinds: list[str]
) -> None:
    server.prepared = prepared(REQUEST, "responses", [Output(text, "stop", [1])])
    response = openai_client.responses.create(model=MODEL, input="x")
    assert [item.type for item in response.output] == kinds
    assert response.output_text == ("Hi" if "Hi" in text else "")
