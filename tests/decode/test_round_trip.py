"""What the codec writes of an assistant's message, it reads back, by ids.

For any text in content, reasoning, names and values, markup and control tokens spelled out included: written text never
becomes a control token, so nothing of it can be taken for markup. Names and keys cannot contain `"`, and a name is not
empty. What the format itself does not carry is lost, and `expected` says what that is:

- newlines at the start of reasoning and content, at the end of reasoning, and at the end of content before calls;
  a `<` there keeps one of the newlines after it, for it might have begun the markup;
- the order of calls on V4, which sorts them by id;
- how numbers were spelled, and arguments that are no object, which become a parameter `arguments`.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe

SPELLED = [
    *("<think>", "</think>", "｜DSML｜", "<｜DSML｜tool_calls>\n", "</｜DSML｜parameter>", "</｜DSML｜ invoke>\n"),
    *(
        '<｜DSML｜invoke name="f">\n',
        "<｜end▁of▁sentence｜>",
        "<｜User｜>",
        "\n",
        "\n\n",
        "<",
        "</",
        '"',
        "\\",
        "```\n",
        "{",
    ),
]
TEXT = st.one_of(st.text(max_size=20), st.lists(st.one_of(st.sampled_from(SPELLED), st.text(max_size=3))).map("".join))
NAMES = TEXT.map(lambda text: text.replace('"', ""))
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
VALUES = st.recursive(SCALARS, lambda below: st.one_of(st.lists(below), st.dictionaries(TEXT, below)), max_leaves=6)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4).map(lambda value: json.dumps(value, ensure_ascii=False))
ARGUMENTS = st.one_of(OBJECTS, OBJECTS, st.sampled_from(["", "[1]", "7", "oops", "null", '{"a": 1} x']))


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """An assistant's message, in the form of a conversation."""
    calls = draw(st.lists(st.tuples(NAMES.filter(bool), ARGUMENTS), max_size=3))
    return {
        "role": "assistant",
        "content": draw(TEXT),
        "reasoning_content": draw(st.one_of(st.none(), TEXT)),
        "tool_calls": [[f"id{2 - place}", name, arguments] for place, (name, arguments) in enumerate(calls)],
    }


def written(message: dict[str, Any], version: str) -> tuple[str, list[int]]:
    """The stage that an answer begins in, and its ids, from the prompt that has it as a past message."""
    conversation = {
        "messages": [{"role": "user", "content": "x"}, message],
        "tools": [{"name": "f", "description": "", "parameters": {}}],
        "thinking_mode": message["reasoning_content"] is not None,
    }
    ids = recipe.encode_conversation(conversation, version=version).token_ids.tolist()
    tokenizer = recipe.Tokenizer.built_in(version)
    end = len(ids) - 1 - ids[::-1].index(recipe.eos_token_id(version))
    start = max(place for place, id in enumerate(ids[:end]) if id == tokenizer.special_id("<｜Assistant｜>")) + 1
    stages = {tokenizer.special_id("<think>"): "reasoning_start", tokenizer.special_id("</think>"): "content"}
    return stages[ids[start]], ids[start + 1 : end + 1]


def read(stage: Any, ids: list[int], size: int, version: str) -> tuple[str, str, list[tuple[str, Any]], str]:
    """Reasoning, content, calls and finish reason of an answer that comes in pushes of one size."""
    parsing = recipe.Parsing(initial_stage=stage, parse_tool_calls=True)
    decoder = recipe.Decoder(
        "chat_completions", parsing, id="a", model="m", created=0, seed=b"round trip", tokenizer=version
    )
    for place in range(0, len(ids), size):
        decoder.push(ids[place : place + size])
    decoder.finish("stop")
    choice = json.loads(decoder.response())["choices"][0]
    message = choice["message"]
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])
    ]
    return message["reasoning_content"], message["content"], calls, choice["finish_reason"]


def expected(message: dict[str, Any], version: str) -> tuple[str, str, list[tuple[str, Any]], str]:
    """What the format carries of a message."""
    calls = sorted(message["tool_calls"]) if version == "v4" else message["tool_calls"]
    content = message["content"].lstrip("\n")
    if calls:
        content = content.rstrip("\n")
        content += "\n" if content.endswith("<") else ""
    read_calls = [(name, object_of(arguments)) for _, name, arguments in calls]
    return (message["reasoning_content"] or "").strip("\n"), content, read_calls, "tool_calls" if calls else "stop"


def object_of(arguments: str) -> Any:
    """Arguments as the format carries them."""
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


@given(message=messages(), size=st.sampled_from([1, 2, 3, 7, 10**6]), version=st.sampled_from(["v4", "v4.1"]))
@settings(deadline=None, max_examples=150)
def test_a_message_is_read_back(message: dict[str, Any], size: int, version: str) -> None:
    stage, ids = written(message, version)
    assert read(stage, ids, size, version) == expected(message, version)
