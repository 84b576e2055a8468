"""Folds a stream to what a client can see of it, whatever the cuts: one function for each protocol.

A stream is a list of pairs, the event's name and its data. A stream that breaks the protocol's own order (a delta for a
block that is not open, a gap in the numbers) raises `BrokenStreamError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]
Frame = tuple[str | None, Json]
CALL_ID = re.compile(r"(call_\d{2,}_(?:ET_)?)[0-9A-Za-z]{24}")
TIMES = ("created", "created_at", "completed_at")


class BrokenStreamError(Exception):
    """A stream that no client could follow."""


def require(condition: bool, fault: str) -> None:
    """Raises `BrokenStreamError` unless the condition holds."""
    if not condition:
        raise BrokenStreamError(fault)


def frames(sent: bytes) -> list[Frame]:
    """Events of a stream of server-sent events, without comments and the closing `[DONE]`."""
    found: list[Frame] = []
    for frame in sent.decode().split("\n\n"):
        lines = [line for line in frame.split("\n") if not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines if line)
        if fields and fields["data"] != "[DONE]":
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


def masked(value: Any) -> Any:
    """`value` without what is random or a time."""
    if isinstance(value, dict):
        return {key: 0 if key in TIMES and item is not None else masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    if isinstance(value, str) and (match := CALL_ID.fullmatch(value)):
        return match[1] + "x" * 24
    return value


def fold(protocol: str, stream: Iterable[Frame]) -> Json:
    """The folded form of a stream. `protocol` as the vectors spell it."""
    folded: Json = masked({"chat": fold_chat, "responses": fold_responses, "messages": fold_messages}[protocol](stream))
    return folded


def fold_chat(stream: Iterable[Frame]) -> Json:
    """Chat Completions: the choices, and what the chunks say of the whole."""
    heads: list[Json] = []
    choices: dict[int, Json] = {}
    usage = None
    for _, chunk in stream:
        heads.append({key: chunk[key] for key in ("id", "object", "model", "system_fingerprint")})
        if chunk.get("usage") is not None:
            require(usage is None, "two usages")
            usage = chunk["usage"]
        for choice in chunk["choices"]:
            blank: Json = {"role": None, "content": "", "reasoning_content": None, "calls": [], "finish_reason": None}
            folded = choices.setdefault(choice["index"], blank | {"logprobs": {}})
            require(folded["finish_reason"] is None, "a choice goes on after its end")
            add_chat_delta(folded, choice["delta"])
            folded["finish_reason"] = choice["finish_reason"]
            for kind, entries in (choice["logprobs"] or {}).items():
                folded["logprobs"].setdefault(kind, []).extend(entries or [])
    require(all(head == heads[0] for head in heads), "chunks of different answers")
    return {
        "head": heads[0] if heads else None,
        "choices": [choices[index] for index in sorted(choices)],
        "usage": usage,
    }


def add_chat_delta(folded: Json, delta: Json) -> None:
    """Adds one delta to a choice."""
    folded["role"] = delta.get("role") or folded["role"]
    folded["content"] += delta.get("content") or ""
    if (reasoning := delta.get("reasoning_content")) is not None:
        folded["reasoning_content"] = (folded["reasoning_content"] or "") + reasoning
    for call in delta.get("tool_calls") or []:
        if "id" in call:
            require(call["index"] == len(folded["calls"]), "calls out of order")
            function = call["function"]
            folded["calls"].append({"id": call["id"], "name": function["name"], "arguments": function["arguments"]})
        else:
            require(call["index"] == len(folded["calls"]) - 1, "arguments of a call that is not open")
            folded["calls"][-1]["arguments"] += call["function"]["arguments"]


def fold_messages(stream: Iterable[Frame]) -> Json:
    """Messages: the blocks, each with its text, and the end."""
    message: Json = {"head": None, "blocks": [], "stop_reason": None, "stop_sequence": None, "usage": {}}
    blocks: list[Json] = message["blocks"]
    is_open = is_over = False
    for name, event in stream:
        require(name == event["type"] and not is_over, f"{name} after the end, or misnamed")
        if name == "message_start":
            message["head"] = {key: event["message"][key] for key in ("id", "type", "role", "model", "content")}
            message["usage"] |= event["message"]["usage"]
        elif name == "content_block_start":
            require(not is_open and event["index"] == len(blocks), "a block starts out of order")
            blocks.append({**event["content_block"], **({"json": ""} if "input" in event["content_block"] else {})})
            is_open = True
        elif name == "content_block_delta":
            require(is_open and event["index"] == len(blocks) - 1, "a delta of a block that is not open")
            kind, text = (item for key, item in sorted(event["delta"].items(), key=lambda item: item[0] != "type"))
            blocks[-1]["json" if kind == "input_json_delta" else kind.removesuffix("_delta")] += text
        elif name == "content_block_stop":
            require(is_open and event["index"] == len(blocks) - 1, "a block stops that is not open")
            is_open = False
        elif name == "message_delta":
            require(not is_open and message["stop_reason"] is None, "the end of a message whose block is open")
            message |= event["delta"]
            message["usage"] |= event["usage"]
        elif name == "message_stop":
            is_over = True
    return message


def fold_responses(stream: Iterable[Frame]) -> Json:
    """Responses: the items, and the last event. Every item is checked against the events that built it."""
    items: list[Json] = []
    done: list[Json] = []
    last: Json = {"type": None}
    for place, (name, event) in enumerate(stream):
        require(name == event["type"] and event["sequence_number"] == place, "events out of order")
        last = event
        number = event.get("output_index")
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            require(number == len(items) == len(done), "an item starts out of order")
            items.append({"added": event["item"], "text": "", "logprobs": []})
        elif number is not None:
            require(number == len(items) - 1 == len(done), "an event of an item that is not open")
            if kind == "output_item.done":
                require(items[-1]["text"] == text_of(event["item"]), "an item that is not the sum of its deltas")
                require(items[-1]["added"]["id"] == event["item"]["id"], "an item that changes its id")
                done.append(event["item"])
            elif kind.endswith(".delta"):
                items[-1]["text"] += event["delta"]
                items[-1]["logprobs"] += event.get("logprobs", [])
    response = last.get("response", {})
    if response.get("status") in ("completed", "incomplete"):
        require(response["output"] == done, "a last event whose items are others")
    return {
        "items": done,
        "logprobs": [item["logprobs"] for item in items],
        "last": last["type"],
        "incomplete_details": response.get("incomplete_details"),
        "usage": response.get("usage"),
    }


def text_of(item: Json) -> str:
    """Text of a finished item, whatever its kind."""
    for key in ("arguments", "input"):
        if key in item:
            text: str = item[key]
            return text
    return "".join(part["text"] for part in item["content"])
