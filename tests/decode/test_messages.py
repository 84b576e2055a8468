"""Messages streams, read by Anthropic's own client over a socket."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from anthropic.types import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import deepseek_recipe as recipe
from tests.decode.outputs import MODEL, STOP, TOOLS, Output, outputs, prepared
from tests.decode.sdk_server import SdkServer

ASK: dict[str, Any] = {"model": MODEL, "max_tokens": 99, "messages": [{"role": "user", "content": "x"}]}
REQUEST: dict[str, Any] = ASK | {
    "stream": True,
    "stop_sequences": [STOP],
    "tools": [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS],
}
REUSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def plain(model: BaseModel) -> Any:
    """A model of the client as JSON."""
    return json.loads(model.model_dump_json(exclude_unset=True, warnings="none"))


def without_helpers(message: Any) -> Any:
    """A message without what only the client's stream helper adds."""
    for block in message["content"]:
        block.pop("parsed_output", None)
    message.pop("stop_details", None)
    return message


def is_cut(message: Any) -> bool:
    """Whether the message ends in a call whose arguments were cut; the client then reads on its own what is there."""
    return message["stop_reason"] in ("max_tokens", "refusal") and bool(message["content"])


@given(data=st.data())
@REUSE
def test_the_fold_of_the_stream_is_the_message(
    server: SdkServer, anthropic_client: anthropic.Anthropic, data: st.DataObject
) -> None:
    thinking = data.draw(st.booleans())
    kind = {"type": "enabled", "budget_tokens": 50} if thinking else {"type": "disabled"}
    output = data.draw(outputs(thinking))
    server.prepared = prepared(REQUEST | {"thinking": kind}, "messages", [output], keep_alive=data.draw(st.booleans()))
    whole = plain(anthropic_client.messages.create(**ASK))
    with anthropic_client.messages.stream(**ASK) as stream:
        list(stream)
        folded = without_helpers(plain(stream.get_final_message()))
    if is_cut(whole):
        for message in (whole, folded):
            # Prose inside the call stands after it.
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            for last in calls[-1:]:
                last["input"] = {}
    assert folded == whole
    Message.model_validate(whole)
    for event in anthropic_client.messages.create(**ASK, stream=True):
        type(event).model_validate(plain(event))


def test_blocks_follow_each_other(server: SdkServer, anthropic_client: anthropic.Anthropic) -> None:
    call = '<｜DSML｜ calls>\n<｜DSML｜ invoke name="search">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    server.prepared = prepared(REQUEST, "messages", [Output(f"t</think>Hi\n{call}\nbye", "stop", [2])])
    starts, stops, is_open = [], [], None
    for event in anthropic_client.messages.create(**ASK, stream=True):
        if event.type == "content_block_start":
            assert is_open is None
            is_open = event.index
            starts.append((event.index, event.content_block.type))
        elif event.type == "content_block_delta":
            assert event.index == is_open
        elif event.type == "content_block_stop":
            stops.append(event.index)
            is_open = None
    assert starts == [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "text")]
    assert stops == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "finish", "reason", "sequence"),
    [
        ("Hi", "stop", "end_turn", None),
        ("Hi", None, "end_turn", None),
        ("Hi", "length", "max_tokens", None),
        ("Hi", "content_filter", "refusal", None),
        (f"Hi{STOP} more", "length", "stop_sequence", STOP),
        ('<｜DSML｜ invoke name="search">\n</｜DSML｜ invoke>', "stop", "tool_use", None),
        ('<｜DSML｜ invoke name="search">\n<｜DSML｜ parameter name="a" string="true">x', "stop", "max_tokens", None),
    ],
)
def test_stop_reasons(
    server: SdkServer,
    anthropic_client: anthropic.Anthropic,
    text: str,
    finish: Any,
    reason: str,
    sequence: str | None,
) -> None:
    request = REQUEST | {"thinking": {"type": "disabled"}}
    server.prepared = prepared(request, "messages", [Output(text, finish, [4])])
    message = anthropic_client.messages.create(**ASK)
    assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


def test_usage_is_the_cost_of_the_prompt_and_of_the_answer(
    server: SdkServer, anthropic_client: anthropic.Anthropic
) -> None:
    request = REQUEST | {"thinking": {"type": "disabled"}}
    server.prepared = prepared(request, "messages", [Output("Hi there", "stop", [1])])
    usage = anthropic_client.messages.create(**ASK).usage
    prompt = len(recipe.encode(request, "messages").token_ids)
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (prompt - 2, 2, 2)


def test_a_failed_answer_raises_the_clients_error(server: SdkServer, anthropic_client: anthropic.Anthropic) -> None:
    decoder = recipe.encode(REQUEST, "messages").decoder(id="a", created=0, seed=b"s")
    server.prepared.stream = decoder.start() + decoder.push_text("Hi") + decoder.fail("the backend is gone")
    with pytest.raises(anthropic.APIError, match="the backend is gone"):
        list(anthropic_client.messages.create(**ASK, stream=True))
