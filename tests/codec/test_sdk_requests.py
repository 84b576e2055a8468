"""Requests built with the official SDKs' own types are described by the schemas, and are encoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

import deepseek_recipe as recipe
from tests.vectors import encode_rows, run

SCHEMAS = Path(__file__).parents[2] / "schemas"
MODEL = "DeepSeek-V4.1-Flash"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}

CHAT_COMPLETIONS: CompletionCreateParamsStreaming = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "Answer in json."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            ],
            "name": "ann",
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True},
        }
    ],
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "stop": ["END"],
    "seed": 7,
    "logprobs": True,
    "top_logprobs": 3,
    "parallel_tool_calls": True,
    "reasoning_effort": "high",
    "metadata": {"run": "1"},
    "user": "u",
}

RESPONSES: ResponseCreateParamsNonStreaming = {
    "model": MODEL,
    "instructions": "Be brief.",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [
        {"type": "function", "name": "weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True},
        {"type": "web_search", "search_context_size": "low"},
    ],
    "tool_choice": "auto",
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "max_output_tokens": 100,
    "top_logprobs": 2,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "metadata": {"run": "1"},
}

MESSAGES: MessageCreateParamsNonStreaming = {
    "model": MODEL,
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look.", "signature": "s"},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]},
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
    ],
    "tools": [{"name": "weather", "description": "Weather.", "input_schema": cast("dict[str, Any]", PARAMETERS)}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u"},
}

REQUESTS: dict[Any, Any] = {"chat_completions": CHAT_COMPLETIONS, "responses": RESPONSES, "messages": MESSAGES}


def validator(protocol: str) -> Validator:
    """The validator of a protocol's requests."""
    schema = json.loads((SCHEMAS / f"{protocol}.request.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("protocol", REQUESTS)
def test_sdk_requests_are_valid_and_encoded(protocol: Any) -> None:
    body = REQUESTS[protocol]
    validator(protocol).validate(json.loads(json.dumps(body)))
    encoded = recipe.encode(body, protocol)
    assert "And tomorrow?" in encoded.prompt
    assert encoded.parsing.declared_tools == ["weather"]
    assert len(encoded.images) == 1


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("chat_completions", {"messages": "q"}),
        ("chat_completions", {"messages": [{"role": "wizard", "content": ""}]}),
        ("responses", {"stream": 1}),
        ("responses", {"tools": [{"type": "function"}]}),
        ("messages", {"max_tokens": "9"}),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    ],
)
def test_schemas_and_codec_refuse_the_same(protocol: Any, change: dict[str, Any]) -> None:
    body = REQUESTS[protocol] | change
    assert not validator(protocol).is_valid(body)
    with pytest.raises(recipe.RequestError):
        recipe.encode(body, protocol)


def test_vectors_that_are_read_are_valid() -> None:
    """What the reader of types accepts, the schema accepts: over all requests of the vectors."""
    for protocol, name in encode_rows.PROTOCOLS.items():
        valid = validator(name)
        for row in run.rows(run.HERE / "encode.jsonl.gz"):
            if row["protocol"] == protocol and "request" in row and "ok" in row:
                error = next(iter(valid.iter_errors(row["request"])), None)
                assert error is None, f"{row['id']}: {error.message if error else ''}"
