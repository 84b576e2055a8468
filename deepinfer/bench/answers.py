"""What a client reads from an answer's stream: events, usage, and the history that it sends back. Owns nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec


class Protocol(StrEnum):
    """The protocols, by name."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


PATHS: Final = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.RESPONSES: "/v1/responses",
    Protocol.MESSAGES: "/v1/messages",
}
# An event with reasoning or text of the answer. In JSON a quote within a string is escaped, so no text looks like it.
CONTENT: Final = {
    Protocol.CHAT: re.compile(rb'"(?:reasoning_)?content": ?"(?!")'),
    Protocol.RESPONSES: re.compile(rb'"type": ?"response\.(?:output|reasoning|reasoning_summary)_text\.delta"'),
    Protocol.MESSAGES: re.compile(rb'"type": ?"(?:text|thinking)_delta"'),
}
# An event of a call. Tokens of a call's markup are silent, so no time between tokens is taken over such events.
CALL: Final = {
    Protocol.CHAT: re.compile(rb'"tool_calls": ?\['),
    Protocol.RESPONSES: re.compile(rb'"type": ?"(?:function_call|custom_tool_call|response\.function_call_arguments)'),
    Protocol.MESSAGES: re.compile(rb'"type": ?"(?:tool_use|input_json_delta)"'),
}


@dataclass(slots=True)
class Answer:
    """A whole answer. `history` is what the client's next request repeats; `finished` whether its stream said so."""

    history: list[dict[str, Any]] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finished: bool = False
    error: str | None = None


def fold(protocol: Protocol, stream: bytes) -> Answer:
    """Put an answer together from the bytes of its stream."""
    answer = Answer()
    _FOLDS[protocol](answer, _events(stream))
    return answer


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder().decode
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            yield decode(line[6:])


def _fold_chat(answer: Answer, events: Iterator[dict[str, Any]]) -> None:
    reasoning, content = [], []
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        if "error" in event:
            answer.error = str(event["error"])
        for choice in event.get("choices", ()):
            delta = choice["delta"]
            reasoning.append(delta.get("reasoning_content") or "")
            content.append(delta.get("content") or "")
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(part["index"], {"id": part.get("id"), "name": "", "arguments": ""})
                call["name"] += part["function"].get("name") or ""
                call["arguments"] += part["function"].get("arguments") or ""
            answer.finished |= choice.get("finish_reason") is not None
        if usage := event.get("usage"):
            answer.prompt_tokens, answer.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]
            answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    answer.text = "".join(reasoning + content)
    answer.call_ids = [call["id"] for call in calls.values()]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(content),
        "reasoning_content": "".join(reasoning),
    }
    if calls:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
    answer.history = [message]


def _fold_responses(answer: Answer, events: Iterator[dict[str, Any]]) -> None:
    for event in events:
        if event["type"] == "error":
            answer.error = str(event)
        if event["type"] not in ("response.completed", "response.incomplete", "response.failed"):
            continue
        response = event["response"]
        answer.finished = True
        answer.error = answer.error if response["error"] is None else str(response["error"])
        answer.history = response["output"]
        answer.call_ids = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
        parts = [part for item in response["output"] for part in item.get("content") or ()]
        answer.text = "".join(part.get("text", "") for part in parts)
        if usage := response.get("usage"):
            answer.prompt_tokens, answer.completion_tokens = usage["input_tokens"], usage["output_tokens"]
            answer.cached_tokens = usage["input_tokens_details"]["cached_tokens"]


def _fold_messages(answer: Answer, events: Iterator[dict[str, Any]]) -> None:
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                delta = dict(event["delta"])
                del delta["type"]
                for name, text in delta.items():
                    if name == "partial_json":
                        inputs[event["index"]] = inputs.get(event["index"], "") + text
                    else:
                        blocks[event["index"]][name] += text
            case "message_delta":
                usage = event["usage"]
                answer.cached_tokens = usage.get("cache_read_input_tokens") or 0
                answer.prompt_tokens = usage.get("input_tokens", 0) + answer.cached_tokens
                answer.completion_tokens = usage["output_tokens"]
            case "message_stop":
                answer.finished = True
            case "error":
                answer.error = str(event["error"])
    for index, text in inputs.items():
        blocks[index]["input"] = msgspec.json.decode(text or "{}") if answer.finished else {}
    answer.text = "".join(block.get("thinking", "") + block.get("text", "") for block in blocks.values())
    answer.call_ids = [block["id"] for block in blocks.values() if block["type"] == "tool_use"]
    answer.history = [{"role": "assistant", "content": list(blocks.values())}]


_FOLDS: Final = {
    Protocol.CHAT: _fold_chat,
    Protocol.RESPONSES: _fold_responses,
    Protocol.MESSAGES: _fold_messages,
}
