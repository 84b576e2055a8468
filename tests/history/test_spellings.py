"""Values that a model spells otherwise than the prompt prints them: they come back in its own ids, unless changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe
from tests.decode.sdk_server import SdkServer
from tests.history.turns import ANSWERS, Conversation, options, output, unusual_ids

every_protocol = pytest.mark.parametrize("protocol", sorted(ANSWERS))
every_version = pytest.mark.parametrize("version", ["v4", "v4.1"])

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
)
BLANKS = st.sampled_from(["", "", " ", "\n", "\t "])


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """A value as JSON, in any of its spellings."""

    def joined(parts: list[str]) -> str:
        return draw(BLANKS) + ",".join(draw(BLANKS) + part + draw(BLANKS) for part in parts)

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    match value:
        case dict():
            members = [text(key) + draw(BLANKS) + ":" + draw(spelled(member)) for key, member in value.items()]
            return "{" + joined(members) + "}"
        case list():
            return "[" + joined([draw(spelled(item)) for item in value]) + "]"
        case str():
            return text(value)
        case float():
            return draw(st.sampled_from([repr(value), f"{value:.17e}", f"{value:.17E}"]))
        case _:
            return json.dumps(value)


@st.composite
def parameters(draw: st.DrawFn) -> list[str]:
    """Parameters of a call, after the word of their tag."""
    values = draw(st.lists(VALUES, max_size=3))
    return [
        f' name="p{place}" string="false">{draw(BLANKS)}{draw(spelled(value))}{draw(BLANKS)}'
        for place, value in enumerate(values)
    ]


def answered(
    protocol: str, version: str, server: SdkServer, text: str, *, stream: bool
) -> tuple[Conversation, list[int]]:
    """A conversation whose next prompt is due, and all ids that a prefix cache holds."""
    conversation = Conversation(protocol, version)
    own = unusual_ids(text)
    server.prepared = conversation.prepared(own, options())
    cached = conversation.encoded().token_ids.tolist() + own
    ANSWERS[protocol](conversation, server, stream)
    return conversation, cached


@every_protocol
@every_version
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_come_back_as_the_model_spelled_them(
    protocol: str, version: str, server: SdkServer, data: st.DataObject
) -> None:
    text = output(version, data.draw(parameters()), data.draw(st.sampled_from(["\n", "", "\n\n", " \n"])))
    conversation, cached = answered(protocol, version, server, text, stream=data.draw(st.booleans()))
    with_key, without = conversation.encoded(options()), conversation.encoded()
    assert with_key.token_ids.tolist()[: len(cached)] == cached
    assert (with_key.prompt, with_key.special_ranges) == (without.prompt, without.special_ranges)


def call_of(conversation: Conversation) -> tuple[dict[str, Any], str]:
    """What holds the arguments of the call that was sent back, and by which key."""
    items = conversation.request[conversation.items]
    if conversation.protocol == "chat_completions":
        return items[1]["tool_calls"][0]["function"], "arguments"
    if conversation.protocol == "responses":
        return next(item for item in items if item.get("type") == "function_call"), "arguments"
    return next(block for block in items[1]["content"] if block["type"] == "tool_use"), "input"


WRITTEN = {"a": [1, 2], "b": 2.5, "c": True, "d": "e"}
CHANGED = [
    WRITTEN | {"a": [2, 1]},
    WRITTEN | {"a": [1, 2, 3]},
    WRITTEN | {"b": 2.51},
    WRITTEN | {"b": "2.5"},
    WRITTEN | {"c": None},
    WRITTEN | {"d": "E"},
    WRITTEN | {"f": 0},
    dict(reversed(WRITTEN.items())),
    {},
]


@every_protocol
@every_version
@pytest.mark.parametrize("changed", CHANGED, ids=repr)
def test_a_changed_value_has_the_ids_of_its_text(
    protocol: str, version: str, changed: dict[str, Any], server: SdkServer
) -> None:
    text = output(version, [' name="at" string="false">{"a":[1,2],"b":2.50,"c":true,"d":"\\u0065"}'])
    conversation, cached = answered(protocol, version, server, text, stream=False)
    assert conversation.encoded(options()).token_ids.tolist()[: len(cached)] == cached
    holder, key = call_of(conversation)
    arguments = json.loads(holder[key]) if key == "arguments" else holder[key]
    assert arguments == {"at": WRITTEN}
    arguments["at"] = changed
    holder[key] = json.dumps(arguments) if key == "arguments" else arguments
    with_key, without = (conversation.encoded(chosen) for chosen in (options(), None))
    assert with_key.prompt == without.prompt
    printed = f'name="at" string="false">{json.dumps(changed)}<'
    assert printed in tail(with_key.token_ids.tolist(), without.token_ids.tolist())
    assert with_key.token_ids.tolist() != without.token_ids.tolist(), "what stands before the call is the model's"


def tail(one: list[int], other: list[int]) -> str:
    """The text of the ids in which two lists end alike."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    length = next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
    return recipe.Tokenizer.built_in("v4.1").decode(one[len(one) - length :])
