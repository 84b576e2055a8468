"""The same conversation gives the same ids, whichever protocol says it.

Where the protocols cannot say the same, or the service reads them differently, the conversations keep clear of it:

- an empty system text is dropped by Chat and Responses, and kept by Messages;
- a later system message of Messages is a reminder of the user's on V4, so only V4.1 conversations have some;
- Responses puts the calls and results of a round in the order of their ids, so ids ascend here;
- Responses joins assistant messages in a row, so user or tools stand between them;
- Messages keeps adjacent texts as messages of their own, which V4 joins in another way around empty ones: none is;
- a trailing assistant message is continued by Messages and closed by the others, so there is none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe

MODELS = {"v4": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
EFFORTS = {"low": "low", "high": "high", "xhigh": "xhigh", "max": "max"}
URL = "https://example.com/a.png"
Json = dict[str, Any]

texts = st.text(min_size=1, max_size=30).filter(lambda text: not text.startswith("x-anthropic-billing-header"))
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=8), values, max_size=3)
names = st.sampled_from(["read_file", "get_weather", "run-tests"])


@dataclass
class Call:
    """A call and its result."""

    name: str
    arguments: Json
    result: str


@dataclass
class Turn:
    """What one side says."""

    speaker: str
    parts: list[str | None] = field(default_factory=list)
    reasoning: str | None = None
    calls: list[Call] = field(default_factory=list)


@dataclass
class Dialogue:
    """A conversation, in no protocol's words."""

    system: str | None
    tools: list[str]
    thinking: bool
    effort: str
    turns: list[Turn]


@st.composite
def dialogues(draw: st.DrawFn, version: str) -> Dialogue:
    """Conversations that all protocols can say."""
    parts = st.lists(texts | st.none(), min_size=1, max_size=3)
    calls = st.lists(st.builds(Call, names, arguments, st.text(max_size=20)), min_size=1, max_size=3)
    reasoning = st.none() | texts
    turns = []
    for _ in range(draw(st.integers(0, 3))):
        turns.append(Turn("user", parts=draw(parts)))
        if version == "v4.1" and draw(st.booleans()):
            turns.append(Turn("system", parts=[draw(texts)]))
            turns.append(Turn("user", parts=[draw(texts)]))
        for _ in range(draw(st.integers(0, 2))):
            said: list[str | None] = [draw(texts)] if draw(st.booleans()) else []
            turns.append(Turn("assistant", parts=said, reasoning=draw(reasoning), calls=draw(calls)))
        if draw(st.booleans()):
            turns.append(Turn("assistant", parts=[draw(texts)], reasoning=draw(reasoning)))
    turns.append(Turn("user", parts=draw(parts)))
    return Dialogue(
        system=draw(st.none() | texts),
        tools=draw(st.lists(names, unique=True, max_size=3)),
        thinking=draw(st.booleans()),
        effort=draw(st.sampled_from(sorted(EFFORTS))),
        turns=turns,
    )


def schema(name: str) -> Json:
    """The parameters of a tool."""
    return {"type": "object", "properties": {name: {"type": "number", "minimum": 1e-7}}}


def chat_completions(dialogue: Dialogue) -> Json:
    """The dialogue as Chat Completions says it."""
    messages: list[Json] = []
    if dialogue.system is not None:
        messages.append({"role": "system", "content": dialogue.system})
    for place, turn in enumerate(dialogue.turns):
        if turn.speaker != "assistant":
            image = {"type": "image_url", "image_url": {"url": URL}}
            parts = [image if part is None else {"type": "text", "text": part} for part in turn.parts]
            messages.append({"role": turn.speaker, "content": parts})
            continue
        message: Json = {"role": "assistant", "content": turn.parts[0] if turn.parts else None}
        if turn.reasoning is not None:
            message["reasoning_content"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                {"id": f"{place}_{index}", "type": "function", "function": {"name": call.name, "arguments": text}}
                for index, call in enumerate(turn.calls)
                for text in [json.dumps(call.arguments)]
            ]
        messages.append(message)
        for index, call in enumerate(turn.calls):
            messages.append({"role": "tool", "tool_call_id": f"{place}_{index}", "content": call.result})
    return {
        "messages": messages,
        "tools": [
            {"type": "function", "function": {"name": name, "description": name, "parameters": schema(name)}}
            for name in dialogue.tools
        ],
        "thinking": {"type": "enabled" if dialogue.thinking else "disabled"},
        "reasoning_effort": dialogue.effort,
    }


def responses(dialogue: Dialogue) -> Json:
    """The dialogue as Responses says it."""
    items: list[Json] = []
    for place, turn in enumerate(dialogue.turns):
        if turn.speaker != "assistant":
            image = {"type": "input_image", "image_url": URL}
            parts = [image if part is None else {"type": "input_text", "text": part} for part in turn.parts]
            items.append({"role": turn.speaker, "content": parts})
            continue
        if turn.reasoning is not None:
            content = [{"type": "reasoning_text", "text": turn.reasoning}]
            items.append({"type": "reasoning", "id": "rs", "summary": [], "content": content})
        if turn.parts:
            said: list[Json] = [{"type": "output_text", "text": turn.parts[0], "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": said})
        for index, call in enumerate(turn.calls):
            text = json.dumps(call.arguments)
            items.append({"type": "function_call", "call_id": f"{place}_{index}", "name": call.name, "arguments": text})
        for index, call in enumerate(turn.calls):
            items.append({"type": "function_call_output", "call_id": f"{place}_{index}", "output": call.result})
    return {
        "instructions": dialogue.system,
        "input": items,
        "tools": [
            {"type": "function", "name": name, "description": name, "parameters": schema(name)}
            for name in dialogue.tools
        ],
        "reasoning": {"effort": dialogue.effort if dialogue.thinking else "none"},
    }


def messages(dialogue: Dialogue) -> Json:
    """The dialogue as Messages says it."""
    said: list[Json] = []
    for place, turn in enumerate(dialogue.turns):
        blocks: list[Json] = []
        if turn.reasoning is not None:
            blocks.append({"type": "thinking", "thinking": turn.reasoning, "signature": "s"})
        image = {"type": "image", "source": {"type": "url", "url": URL}}
        blocks.extend(image if part is None else {"type": "text", "text": part} for part in turn.parts)
        for index, call in enumerate(turn.calls):
            blocks.append({"type": "tool_use", "id": f"{place}_{index}", "name": call.name, "input": call.arguments})
        said.append({"role": turn.speaker, "content": blocks})
        if turn.calls:
            results = [
                {"type": "tool_result", "tool_use_id": f"{place}_{index}", "content": call.result}
                for index, call in enumerate(turn.calls)
            ]
            said.append({"role": "user", "content": results})
    return {
        "system": dialogue.system,
        "messages": said,
        "max_tokens": 100,
        "tools": [{"name": name, "description": name, "input_schema": schema(name)} for name in dialogue.tools],
        "thinking": {"type": "enabled" if dialogue.thinking else "disabled"},
        "output_config": {"effort": dialogue.effort},
    }


@pytest.mark.parametrize("version", MODELS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_equal_ids(version: str, data: st.DataObject) -> None:
    dialogue = data.draw(dialogues(version))
    model = {"model": MODELS[version]}
    first = recipe.encode(model | chat_completions(dialogue), "chat_completions")
    second = recipe.encode(model | responses(dialogue), "responses")
    third = recipe.encode(model | messages(dialogue), "messages")
    assert first.prompt == second.prompt == third.prompt
    assert first.token_ids.tolist() == second.token_ids.tolist() == third.token_ids.tolist()
    assert first.special_ranges == second.special_ranges == third.special_ranges
    assert first.parsing.initial_stage == second.parsing.initial_stage == third.parsing.initial_stage


def test_a_conversation_of_every_kind() -> None:
    """The least that the law must hold for, without chance."""
    turns = [
        Turn("user", parts=["a", None]),
        Turn("assistant", reasoning="r", calls=[Call("read_file", {"x": 1e-7}, "ok"), Call("run-tests", {}, "")]),
        Turn("assistant", parts=["b"], reasoning="s"),
        Turn("user", parts=["c"]),
    ]
    dialogue = Dialogue("be brief", ["read_file"], thinking=True, effort="max", turns=turns)
    for model in MODELS.values():
        bodies = {"chat_completions": chat_completions, "responses": responses, "messages": messages}
        prompts = {recipe.encode({"model": model} | say(dialogue), protocol).prompt for protocol, say in bodies.items()}
        assert len(prompts) == 1
        assert "<think>r</think>" in prompts.pop()
