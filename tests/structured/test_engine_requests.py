"""What the engine is told of a request's grammar and of its thinking."""

from __future__ import annotations

from typing import Any

import pytest

import deepseek_recipe as recipe
from deepinfer.core import Request
from deepinfer.server.bridge import engine_requests
from deepinfer.server.protocols import ProtocolName
from tests.structured.asking import MODEL, OPTIONS
from tests.structured.support import control

FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {}}}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
THINKING_END, MARK = control("</think>"), control("｜DSML｜")


def told(protocol: ProtocolName, **fields: Any) -> Request:
    words: dict[str, Any] = {"messages": [{"role": "user", "content": "json"}], "max_tokens": 100}
    if protocol == "responses":
        words = {"input": "json", "max_output_tokens": 100}
    encoded = recipe.encode({"model": MODEL, **words, **fields}, protocol=protocol, options=OPTIONS)
    [request] = engine_requests(encoded, encoded.token_ids.tolist(), answer_id="a", context_length=4096)
    return request


def limit(request: Request) -> tuple[int, int] | None:
    found = request.thinking_limit
    return None if found is None else (found.tokens, found.end_token_id)


def thinking(mode: str, **fields: Any) -> dict[str, Any]:
    return {"thinking": {"type": mode, **fields}}


def test_a_request_for_any_answer_has_no_grammar() -> None:
    for mode in ("enabled", "disabled"):
        request = told("chat_completions", **thinking(mode))
        assert (request.grammar, request.thinking_limit) == (None, None)


@pytest.mark.parametrize(
    ("protocol", "fields", "field"),
    [
        ("chat_completions", {"response_format": FORMAT}, "response_format"),
        ("chat_completions", {"structured_outputs": {"choice": ["a"]}}, "structured_outputs"),
        ("chat_completions", {"tools": [FUNCTION], "tool_choice": "required"}, "tools"),
        ("responses", {"text": {"format": {"type": "json_object"}}}, "text.format"),
        ("messages", {"tools": [TOOL], "tool_choice": {"type": "any"}}, "tools"),
    ],
)
def test_a_binding_grammar_leaves_room_for_itself(protocol: ProtocolName, fields: dict[str, Any], field: str) -> None:
    on = {"reasoning": {"effort": "high"}} if protocol == "responses" else thinking("enabled")
    off = {"reasoning": {"effort": "none"}} if protocol == "responses" else thinking("disabled")
    request = told(protocol, **fields, **on)
    assert request.grammar is not None
    assert (request.grammar.start_after, request.grammar.trigger) == (THINKING_END, None)
    assert (request.grammar.binding, request.grammar.field) == (True, field)
    assert limit(request) == (50, THINKING_END)
    request = told(protocol, **fields, **off)
    assert request.grammar is not None
    assert (request.grammar.start_after, request.thinking_limit) == (None, None)


def test_tools_that_may_be_called_leave_thinking_alone() -> None:
    request = told("chat_completions", tools=[FUNCTION], **thinking("enabled"))
    assert request.grammar is not None
    assert (request.grammar.start_after, request.grammar.trigger) == (THINKING_END, MARK)
    assert (request.grammar.binding, request.thinking_limit) == (False, None)


def test_a_budget_holds_with_a_grammar_and_without() -> None:
    budget = thinking("enabled", budget_tokens=7)
    assert limit(told("messages", **budget)) == (7, THINKING_END)
    choice = {"tools": [TOOL], "tool_choice": {"type": "any"}}
    assert limit(told("messages", **budget, **choice)) == (7, THINKING_END)
    assert limit(told("chat_completions", max_thinking_tokens=9, **thinking("enabled"))) == (9, THINKING_END)
    assert limit(told("chat_completions", max_thinking_tokens=9, **thinking("disabled"))) is None
