"""Grammars and budgets of thinking, which the gateway has a real vLLM enforce."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.e2e.server_process import ServerProcess
from tests.vllm.protocols import CHAT, TOKENIZER, Protocol, every_protocol, streamed_or_not
from tests.vllm.relay import Relay

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

THINKING_END = TOKENIZER.special_id("</think>")
# A model of random weights ends no value that may go on, so none here may for long.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Rome"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "note": {"type": "string", "pattern": "^[a-z]{2,5}$"},
    },
    "required": ["city", "days", "note"],
    "additionalProperties": False,
}

# Without thinking the grammar holds from the first token on; with it the answer takes several requests.
thinking_or_not = pytest.mark.parametrize("thinking", [0, 6], ids=["at once", "after thinking"])


@every_protocol
@streamed_or_not
@thinking_or_not
def test_a_required_call_fits_its_schema(
    gateway: ServerProcess, protocol: Protocol, stream: bool, thinking: int
) -> None:
    body = protocol.body("Weather?", 400, thinking=thinking, **protocol.tool("get_weather", SCHEMA))
    answer = protocol.ask(gateway, body, stream=stream)
    assert answer.calls
    for name, arguments in answer.calls:
        assert name == "get_weather"
        jsonschema.validate(arguments, SCHEMA)
    assert bool(answer.reasoning) == bool(thinking)


@every_protocol
@streamed_or_not
@thinking_or_not
def test_an_answer_fits_its_schema(gateway: ServerProcess, protocol: Protocol, stream: bool, thinking: int) -> None:
    body = protocol.body("Weather?", 400, thinking=thinking, **protocol.schema(SCHEMA))
    answer = protocol.ask(gateway, body, stream=stream)
    jsonschema.validate(json.loads(answer.text), SCHEMA)
    assert answer.finish == protocol.stop


@pytest.mark.parametrize("seed", range(8))
def test_a_wild_answer_fits_its_schema(gateway: ServerProcess, seed: int) -> None:
    body = CHAT.body("Weather?", 400, temperature=1, seed=seed, **CHAT.schema(SCHEMA))
    jsonschema.validate(json.loads(CHAT.ask(gateway, body).text), SCHEMA)


@every_protocol
@streamed_or_not
def test_thinking_ends_with_its_budget(watched: ServerProcess, relay: Relay, protocol: Protocol, stream: bool) -> None:
    body = protocol.body("Think.", 30, thinking=9)
    before = len(relay.passages)
    answer = protocol.ask(watched, body, stream=stream)
    thinking, rest = relay.passages[before:]
    assert len(thinking.answer_ids) == 9
    assert answer.reasoning.strip() == TOKENIZER.decode(thinking.answer_ids).strip()
    assert rest.prompt_ids == [*protocol.prompt_ids(body), *thinking.answer_ids, THINKING_END]
    assert answer.text.strip() == TOKENIZER.decode(rest.answer_ids).strip()
    # The end of thinking is a token of the answer, though vLLM did not write it.
    assert len(thinking.answer_ids) + 1 + len(rest.answer_ids) == answer.usage[2] == 30
    assert answer.finish == protocol.length


@pytest.mark.parametrize(
    ("constraint", "pattern"),
    [
        ({"regex": "[ab]{3}c"}, "[ab]{3}c"),
        ({"choice": ["left", "right"]}, "left|right"),
        ({"grammar": 'start: "x" DIGITS\nDIGITS: /[0-9]{2}/ & /[0-4]+/'}, "x[0-4]{2}"),
    ],
    ids=["regex", "choice", "grammar"],
)
def test_other_constraints_of_chat_completions_hold(
    gateway: ServerProcess, constraint: dict[str, Any], pattern: str
) -> None:
    answer = CHAT.ask(gateway, CHAT.body("Say it.", 20, structured_outputs=constraint))
    assert re.fullmatch(pattern, answer.text)
    assert answer.finish == "stop"
