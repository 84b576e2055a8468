"""Which field stored responses and items come from: the one that names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe as recipe
from deepseek_recipe.cli import main
from tests.explain.support import tiling_fault

MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
STORED: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
    {
        "type": "reasoning",
        "content": [{"type": "reasoning_text", "text": text} for text in ("I must", "look.")],
        "summary": [],
    },
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at": "home", "often": [2, null]}'},
]
RESULT = {"type": "function_call_output", "call_id": "c", "output": "a cat"}
STORE: dict[str, Any] = {
    "resp_items": STORED,
    "resp_text": {"input": "Who are you?", "output": [{**STORED[2], "content": "I am a robot."}]},
    "msg": STORED[2],
    "resp_tools": [
        STORED[0],
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "q"}},
        {
            "type": "tool_search_output",
            "call_id": "s",
            "execution": "client",
            "tools": [TOOL | {"defer_loading": True}],
        },
    ],
}


def request(model: str, **members: Any) -> dict[str, Any]:
    """A request that thinks and has a tool."""
    return {"model": model, "tools": [TOOL], "reasoning": {"effort": "high"}} | members


def fields(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields of the conversation and their texts, after a check that every token has one owner."""
    spans = recipe.explain(body, "responses", lookup=STORE.get)
    assert tiling_fault(spans, recipe.encode(body, "responses", lookup=STORE.get)) is None
    settings = ("tools", "reasoning")
    return [(span.path, span.text.strip()) for span in spans if span.path and not span.path.startswith(settings)]


@pytest.mark.parametrize("model", MODELS)
def test_an_earlier_response_is_the_field_that_names_it(model: str) -> None:
    found = fields(request(model, input=[RESULT], previous_response_id="resp_items"))
    assert {path for path, _ in found} == {"previous_response_id", "input[0].output"}
    said = " ".join(text for path, text in found if path == "previous_response_id")
    for text in ("Where is it?", "I must\nlook.", "Let me look.", "look", "at", "home", "[2, null]"):
        assert text in said
    assert found[-1] == ("input[0].output", "a cat")


@pytest.mark.parametrize("model", MODELS)
def test_stored_text_is_told_from_the_request_s_own(model: str) -> None:
    found = fields(request(model, input="Where is it?", previous_response_id="resp_text"))
    assert found == [
        ("previous_response_id", "Who are you?"),
        ("previous_response_id", "I am a robot."),
        ("input", "Where is it?"),
    ]


@pytest.mark.parametrize("model", MODELS)
def test_a_stored_item_is_the_reference_to_it(model: str) -> None:
    asked = {"role": "user", "content": "Where is it?"}
    named = [{"type": "item_reference", "id": id} for id in ("msg", "resp_items", "msg")]
    found = fields(request(model, input=[asked, named[0], asked, named[1], RESULT, named[2], asked]))
    assert [path for path, _ in found][:2] == ["input[0].content", "input[1]"]
    assert {path for path, _ in found} == {"input[0].content", "input[1]", "input[2].content", "input[3]"} | {
        "input[4].output",
        "input[6].content",
    }


def test_a_stored_tool_is_what_names_it() -> None:
    body = request(MODELS[1], input="Look.", previous_response_id="resp_tools", tools=[{"type": "tool_search"}])
    spans = recipe.explain(body, "responses", lookup=STORE.get)
    assert tiling_fault(spans, recipe.encode(body, "responses", lookup=STORE.get)) is None
    assert any(span.path == "previous_response_id" and '"at"' in span.text for span in spans)


def test_records_in_stored_items_are_used() -> None:
    options = recipe.Options(history_key=b"a secret of tests")
    first = request(MODELS[1], input="Where is it?")
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    end = tokenizer.special_id("</think>")
    assert end is not None
    own = [*tokenizer.encode("I must look.\n\n"), end, *tokenizer.encode("\n\nUnbel"), *tokenizer.encode("ievable!")]
    decoder = recipe.encode(first, "responses", options=options).decoder(id="a", created=0, seed=b"any bytes")
    decoder.push(own)
    decoder.finish("stop")
    store = {"resp_1": {"input": first["input"], **json.loads(decoder.response())}}
    body = request(MODELS[1], input="And now?", previous_response_id="resp_1")
    encoded = recipe.encode(body, "responses", options=options, lookup=store.get)
    ids = encoded.token_ids.tolist()
    assert any(ids[place : place + len(own)] == own for place in range(len(ids)))
    spans = recipe.explain(body, "responses", options=options, lookup=store.get)
    assert tiling_fault(spans, encoded) is None
    said = [span.text for span in spans if span.path == "previous_response_id"]
    assert said == ["Where is it?", "I must look.", "Unbelievable!"]


def test_differences_look_up_too() -> None:
    bodies = [request(MODELS[1], input=text, previous_response_id="resp_text") for text in ("One?", "Two?")]
    difference = recipe.diff(bodies[0], bodies[1], "responses", lookup=STORE.get)
    assert difference.path == "input"
    turns = recipe.diff_sequence(bodies, "responses", lookup=STORE.get)
    assert turns[1].shared == difference.shared
    other = request(MODELS[1], input="One?", previous_response_id="resp_items")
    other["input"] = [RESULT]
    assert recipe.diff(bodies[0], other, "responses", lookup=STORE.get).path == "previous_response_id"


def test_faults_of_the_store_come_out_as_they_are() -> None:
    def broken(id: str) -> Any:
        raise ConnectionError(f"no way to {id}")

    body = request(MODELS[1], input="q", previous_response_id="resp_1")
    for call in (
        lambda: recipe.explain(body, "responses", lookup=broken),
        lambda: recipe.diff(body, body, "responses", lookup=broken),
        lambda: recipe.diff_sequence([body], "responses", lookup=broken),
    ):
        with pytest.raises(ConnectionError, match="no way to resp_1"):
            call()
    with pytest.raises(recipe.RequestError, match="nothing is stored under resp_1"):
        recipe.explain(body, "responses", lookup=lambda id: None)


@pytest.mark.parametrize("command", ["explain", "diff", "encode"])
def test_the_command_line_has_no_store(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request(MODELS[1], input="q", previous_response_id="resp_1")))
    assert main([command, str(file), "--protocol", "responses"]) == 1
    assert "previous_response_id: going on from an earlier response (resp_1)" in capsys.readouterr().err
