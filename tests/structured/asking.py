"""Requests of the three protocols that bind their answers, sent to an engine without HTTP, and a judge of these."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import jsonschema

import deepseek_recipe as recipe
from deepinfer.core import Engine
from deepinfer.server.bridge import engine_requests
from deepinfer.server.protocols import ProtocolName
from tests.structured.schemas import SchemaMaker

MODEL = "deepinfer-tiny"
OPTIONS = recipe.Options(models={MODEL: "v4.1"})
MAX_TOKENS = 512
_FINISHED = {
    "chat_completions": ("stop", "tool_calls"),
    "responses": ("completed",),
    "messages": ("end_turn", "tool_use", "stop_sequence"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and what its answer must be: a JSON value, a text, or calls by the schemas of their tools."""

    protocol: ProtocolName
    body: dict[str, Any]
    schema: dict[str, Any] | None = None
    regex: str | None = None
    tools: dict[str, dict[str, Any]] | None = None


def asked(number: int) -> Asked:
    """The request of this number: protocols, kinds and thinking take turns."""
    make = SchemaMaker(number)
    protocol: ProtocolName = ("chat_completions", "responses", "messages")[number % 3]
    thinks = number // 3 % 2 == 1
    kind = number // 6 % 5
    build = {"chat_completions": _chat, "responses": _responses, "messages": _messages}[protocol]
    return build(make, kind, thinks)


def _tools(make: SchemaMaker) -> dict[str, dict[str, Any]]:
    return {name: make.object() for name in ("first_tool", "second")}


def _chat(make: SchemaMaker, kind: int, thinks: bool) -> Asked:
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Answer in json."}],
        "max_tokens": MAX_TOKENS,
        "thinking": {"type": "enabled" if thinks else "disabled"},
    }
    if kind == 0:
        schema = make.value()
        form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}
        return Asked("chat_completions", body | {"response_format": form}, schema=schema)
    if kind == 1:
        regex = make.regex()
        return Asked("chat_completions", body | {"response_format": {"type": "regex", "regex": regex}}, regex=regex)
    tools = _tools(make)
    named = {"type": "function", "function": {"name": "second"}}
    body |= {
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
            for name, schema in tools.items()
        ],
        "tool_choice": named if kind == 3 else "required",
        "parallel_tool_calls": kind == 4,
    }
    return Asked("chat_completions", body, tools={"second": tools["second"]} if kind == 3 else tools)


def _responses(make: SchemaMaker, kind: int, thinks: bool) -> Asked:
    body: dict[str, Any] = {
        "model": MODEL,
        "input": "Answer in json.",
        "max_output_tokens": MAX_TOKENS,
        "reasoning": {"effort": "high" if thinks else "none"},
    }
    if kind < 2:
        schema = make.object()
        form = {"type": "json_schema", "name": "form", "schema": schema, "strict": True}
        return Asked("responses", body | {"text": {"format": form}}, schema=schema)
    tools = _tools(make)
    body |= {
        "tools": [
            {"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in tools.items()
        ],
        "tool_choice": {"type": "function", "name": "second"} if kind == 3 else "required",
        "parallel_tool_calls": kind == 4,
    }
    return Asked("responses", body, tools={"second": tools["second"]} if kind == 3 else tools)


def _messages(make: SchemaMaker, kind: int, thinks: bool) -> Asked:
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Answer in json."}],
        "max_tokens": MAX_TOKENS,
        "thinking": {"type": "enabled", "budget_tokens": 100} if thinks else {"type": "disabled"},
    }
    if kind < 2:
        schema = make.object()
        form = {"format": {"type": "json_schema", "schema": schema}}
        return Asked("messages", body | {"output_config": form}, schema=schema)
    tools = _tools(make)
    choice = {"type": "tool", "name": "second"} if kind == 3 else {"type": "any"}
    body |= {
        "tools": [{"name": name, "input_schema": schema, "strict": True} for name, schema in tools.items()],
        "tool_choice": choice | {"disable_parallel_tool_use": kind != 4},
    }
    return Asked("messages", body, tools={"second": tools["second"]} if kind == 3 else tools)


async def answer(engine: Engine, one: Asked, *, name: str, seed: int) -> dict[str, Any]:
    """Encode, run and decode one request, whatever its own seed."""
    encoded = recipe.encode(one.body, protocol=one.protocol, options=OPTIONS)
    context_length = engine.describe().context_length
    [request] = engine_requests(encoded, encoded.token_ids.tolist(), answer_id=name, context_length=context_length)
    request = replace(request, sampling=replace(request.sampling, seed=seed))
    decoder = encoded.decoder(id=name, created=0, seed=seed.to_bytes(16, "big"))
    decoder.start(prompt_tokens=len(encoded.token_ids))
    reason = None
    async for output in engine.submit(request):
        decoder.push(output.token_ids)
        reason = output.finish_reason
    decoder.finish("length" if reason == "length" else "stop")
    whole: dict[str, Any] = json.loads(decoder.response())
    return whole


def is_finished(one: Asked, whole: dict[str, Any]) -> bool:
    """Whether the answer came to its own end."""
    match one.protocol:
        case "chat_completions":
            reason = whole["choices"][0]["finish_reason"]
        case "responses":
            reason = whole["status"]
        case "messages":
            reason = whole["stop_reason"]
    return reason in _FINISHED[one.protocol]


def check(one: Asked, whole: dict[str, Any]) -> None:
    """Raise AssertionError or ValidationError unless a finished answer is what was asked for."""
    text, calls = _parts(one.protocol, whole)
    if one.tools is not None:
        assert calls, "no call"
        for name, arguments in calls:
            jsonschema.validate(arguments, one.tools[name])
    elif one.regex is not None:
        assert re.fullmatch(one.regex, text), (one.regex, text)
    else:
        assert one.schema is not None
        jsonschema.validate(json.loads(text), one.schema)


def _parts(protocol: ProtocolName, whole: dict[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    match protocol:
        case "chat_completions":
            message = whole["choices"][0]["message"]
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            return message["content"] or "", [(call["name"], json.loads(call["arguments"])) for call in calls]
        case "responses":
            texts = [part["text"] for item in whole["output"] if item["type"] == "message" for part in item["content"]]
            calls = [item for item in whole["output"] if item["type"] == "function_call"]
            return "".join(texts), [(call["name"], json.loads(call["arguments"])) for call in calls]
        case "messages":
            texts = [block["text"] for block in whole["content"] if block["type"] == "text"]
            calls = [block for block in whole["content"] if block["type"] == "tool_use"]
            return "".join(texts), [(call["name"], call["input"]) for call in calls]
