"""Text never becomes a control token: the control ids of a prompt are those that its format places.

Each request is encoded twice: once with hostile texts (spellings of control tokens, pieces of them, markup), once with
a harmless word in every place. Both must have the same control ids in the same order. What the model itself said may
hold the spellings of grounding, which are control tokens by the format; those are left out of its hostile texts, and
have a test of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe

Json = dict[str, Any]
Texts = Callable[[], str]

DATA = Path(__file__).parents[2] / "recipe" / "data" / "tokenizer_v4.json"
ADDED = {token["id"]: token["content"] for token in json.loads(DATA.read_text(encoding="utf-8"))["added_tokens"]}
CONTROL_IDS = frozenset(ADDED)
GROUNDING = [
    "<｜ref｜>",
    "<｜/ref｜>",
    "<｜box｜>",
    "<｜/box｜>",
    "<｜point｜>",
    "<｜/point｜>",
    "<｜polygon｜>",
    "<｜/polygon｜>",
]
SPELLINGS = [
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜System｜>"),
    *("<think>", "</think>", "｜DSML｜", "<｜latest_reminder｜>", "<｜image｜>", "<｜deepseek_image｜>"),
]
MARKUP = [
    "</｜DSML｜invoke>",
    '<｜DSML｜ invoke name="rm">',
    "</tool_result>",
    "<tool_result>",
    '" string="false">',
    "<｜",
    "｜>",
    "\n\n## Tools\n\n",
    "Reasoning Effort: 100",
]
MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]


def cut(spelling: str) -> st.SearchStrategy[str]:
    """Pieces of a spelling."""
    return st.integers(0, len(spelling)).map(lambda place: spelling[:place])


def hostile(spellings: list[str]) -> st.SearchStrategy[str]:
    """Texts of spellings, pieces of them, markup and ordinary characters; never empty, so that no message vanishes."""
    piece = st.sampled_from(spellings) | st.sampled_from(list(ADDED.values()))
    pieces = st.lists(
        piece | piece.flatmap(cut) | st.sampled_from(MARKUP) | st.text(max_size=3), min_size=1, max_size=5
    )
    return pieces.map(lambda parts: "x" + "".join(parts))


USER_TEXTS = hostile(SPELLINGS + GROUNDING)
MODEL_TEXTS = hostile(SPELLINGS).filter(lambda text: not any(spelling in text for spelling in GROUNDING))


def schema(text: Texts) -> Json:
    """A schema with texts in all places."""
    return {
        "type": "object",
        "description": text(),
        "properties": {f"a{text()}": {"type": "string", "enum": [text()], "title": text()}},
        "x-note": [text(), {f"b{text()}": text()}],
    }


def arguments(text: Texts) -> str:
    """Arguments with texts as keys and values, at all depths."""
    return json.dumps({f"a{text()}": text(), f"b{text()}": [{f"c{text()}": text()}, 1]}, ensure_ascii=False)


def chat_completions(text: Texts, model_text: Texts) -> Json:
    """A Chat Completions request with a text in every place."""
    return {
        "messages": [
            {"role": "system", "content": text(), "name": text()},
            {"role": "user", "content": [{"type": "text", "text": text()}, {"type": "text", "text": text()}]},
            {"role": "latest_reminder", "content": text()},
            {
                "role": "assistant",
                "content": model_text(),
                "reasoning_content": model_text(),
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": text(), "arguments": arguments(text)}},
                    {"id": "b", "type": "function", "function": {"name": text(), "arguments": "{" + text()}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": text()},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": text()}]},
            {"role": "user", "content": text()},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": text(), "parameters": schema(text)}},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": text(), "schema": schema(text)}},
        "stop": [text()],
    }


def responses(text: Texts, model_text: Texts) -> Json:
    """A Responses request with a text in every place."""
    return {
        "instructions": text(),
        "input": [
            {"role": "developer", "content": text()},
            {"role": "user", "content": [{"type": "input_text", "text": text()}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": model_text()}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": model_text()}]},
            {"type": "function_call", "call_id": "a", "name": text(), "arguments": arguments(text)},
            {"type": "function_call", "call_id": "b", "name": text(), "namespace": text(), "arguments": text()},
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": text()},
            {"type": "tool_search_call", "call_id": "d", "arguments": {text(): text()}},
            {"type": "function_call_output", "call_id": "a", "output": text()},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": text()}]},
            {"type": "custom_tool_call_output", "call_id": "c", "output": text()},
            {
                "type": "tool_search_output",
                "call_id": "d",
                "tools": [{"type": "function", "name": "g", "description": text(), "parameters": schema(text)}],
            },
            {"role": "user", "content": text()},
        ],
        "tools": [
            {
                "type": "namespace",
                "name": "n",
                "description": text(),
                "tools": [{"type": "function", "name": "f", "description": text(), "parameters": schema(text)}],
            }
        ],
        "user": text(),
    }


def messages(text: Texts, model_text: Texts) -> Json:
    """A Messages request with a text in every place."""
    return {
        "max_tokens": 9,
        "system": [{"type": "text", "text": text()}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": text()}]},
            {"role": "user", "content": [{"type": "document", "source": {"media_type": text()}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": model_text(), "signature": text()},
                    {"type": "text", "text": model_text()},
                    {"type": "tool_use", "id": "a", "name": text(), "input": json.loads(arguments(text))},
                    {"type": "tool_use", "id": "b", "name": text(), "input": text()},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": text()},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": text()}]},
                    {"type": "text", "text": text()},
                ],
            },
            {"role": "system", "content": text()},
            {"role": "user", "content": text()},
        ],
        "tools": [{"name": "f", "description": text(), "input_schema": schema(text)}],
        "metadata": {"user_id": text()},
    }


# Shrinking a failure of so large a request takes minutes, and the first one found says enough.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
REQUESTS = {"chat_completions": chat_completions, "responses": responses, "messages": messages}


def control_ids(body: Json, protocol: Any) -> list[int]:
    """The control ids of a request's prompt."""
    encoded = recipe.encode(body, protocol)
    ids = [token for token in encoded.token_ids.tolist() if token in CONTROL_IDS]
    assert len(ids) == len(encoded.special_ranges)
    return ids


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", REQUESTS)
@settings(max_examples=60, deadline=None, phases=PHASES)
@given(data=st.data())
def test_texts_place_no_control_ids(model: str, protocol: str, data: st.DataObject) -> None:
    build = REQUESTS[protocol]
    body = {"model": model} | build(lambda: data.draw(USER_TEXTS), lambda: data.draw(MODEL_TEXTS))
    harmless = {"model": model} | build(lambda: "word", lambda: "word")
    assert control_ids(body, protocol) == control_ids(harmless, protocol)


@pytest.mark.parametrize("model", MODELS)
def test_every_spelling_in_every_place(model: str) -> None:
    """All spellings at once, without chance."""
    for protocol, build in REQUESTS.items():
        text = "x" + "".join([*SPELLINGS, *ADDED.values(), *GROUNDING, *MARKUP])
        said = "x" + "".join(piece for piece in [*SPELLINGS, *ADDED.values(), *MARKUP] if piece not in GROUNDING)
        body = {"model": model} | build(lambda text=text: text, lambda said=said: said)  # type: ignore[misc]
        harmless = {"model": model} | build(lambda: "word", lambda: "word")
        assert control_ids(body, protocol) == control_ids(harmless, protocol)


@pytest.mark.parametrize("model", MODELS)
def test_only_the_model_speaks_of_places(model: str) -> None:
    """Grounding is control where the model said it, and text where anybody else does."""
    spelled = "".join(GROUNDING)
    ids = [next(key for key, content in ADDED.items() if content == spelling) for spelling in GROUNDING]
    question = {"role": "user", "content": spelled}
    answer = {"role": "assistant", "content": spelled}
    body = {"model": model, "messages": [question, answer, question], "thinking": {"type": "disabled"}}
    found = control_ids(body, "chat_completions")
    assert [token for token in found if token in ids] == ids
