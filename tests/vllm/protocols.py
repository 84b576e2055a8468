"""The three protocols as a client of the gateway sees them: how each asks, and where its answer has what."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

import deepseek_recipe as recipe
from tests.e2e.server_process import ServerProcess

SERVED: Final = "deepinfer-tiny"
TOKENIZER: Final = recipe.Tokenizer.built_in("v4")
OPTIONS: Final = recipe.Options(models={SERVED: "v4"})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client got. `usage` is prompt, cached prompt and answer, in tokens; `calls` are names and arguments."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, Json], ...]
    finish: str
    usage: tuple[int, int, int]


class Protocol(ABC):
    """One of them. `name` is the codec's word for it, `length` and `stop` why answers end."""

    name: str
    path: str
    length: str
    stop: str

    @abstractmethod
    def body(self, content: str, max_tokens: int, *, thinking: int = 0, **fields: Any) -> Json:
        """A greedy request with one message of the user; `thinking` is the budget of tokens for it."""

    @abstractmethod
    def tool(self, name: str, schema: Json) -> Json:
        """Members that require a call of a tool."""

    @abstractmethod
    def schema(self, schema: Json) -> Json:
        """Members that hold the text to a schema."""

    @abstractmethod
    def whole(self, events: Sequence[Json]) -> Json:
        """Fold a stream into the answer that would have come at once."""

    @abstractmethod
    def read(self, answer: Mapping[str, Any]) -> Answer:
        """Read an answer."""

    @abstractmethod
    def error(self, event: Json) -> str | None:
        """The message, if an event is the protocol's error."""

    def prompt_ids(self, body: Json) -> list[int]:
        """The ids of a request's prompt, straight from the codec."""
        return list(recipe.encode(body, self.name, options=OPTIONS).token_ids)

    def ask(self, server: ServerProcess, body: Json, *, stream: bool = False) -> Answer:
        """Ask a server."""
        if not stream:
            response = server.http.post(self.path, json=body, timeout=60)
            assert response.status_code == 200, response.text
            return self.read(response.json())
        with server.http.stream("POST", self.path, json=self.streaming(body), timeout=60) as response:
            return self.read(self.whole(list(events_of(response.iter_lines()))))

    def streaming(self, body: Json) -> Json:
        """The same request, to be answered in a stream."""
        return {**body, "stream": True}


def events_of(lines: Iterable[str]) -> Iterable[Json]:
    """The JSON events of a stream."""
    for line in lines:
        if line.startswith("data: {"):
            event: Json = json.loads(line.removeprefix("data: "))
            yield event


class ChatCompletions(Protocol):
    """OpenAI's older one."""

    name = "chat_completions"
    path = "/v1/chat/completions"
    length = "length"
    stop = "stop"

    def body(self, content: str, max_tokens: int, *, thinking: int = 0, **fields: Any) -> Json:
        switch = {"type": "enabled", "budget_tokens": thinking} if thinking else {"type": "disabled"}
        messages = [{"role": "user", "content": content}]
        common = {"model": SERVED, "messages": messages, "max_tokens": max_tokens, "thinking": switch}
        return {**common, "temperature": 0, **fields}

    def tool(self, name: str, schema: Json) -> Json:
        function = {"name": name, "parameters": schema}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}

    def schema(self, schema: Json) -> Json:
        wanted = {"name": "answer", "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}

    def streaming(self, body: Json) -> Json:
        return {**body, "stream": True, "stream_options": {"include_usage": True}}

    def whole(self, events: Sequence[Json]) -> Json:
        message: Json = {"content": "", "reasoning_content": "", "tool_calls": []}
        finish, usage = None, None
        for event in events:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                finish = choice.get("finish_reason") or finish
                for name in ("content", "reasoning_content"):
                    message[name] += choice["delta"].get(name) or ""
                for part in choice["delta"].get("tool_calls") or ():
                    if part["index"] == len(message["tool_calls"]):
                        message["tool_calls"].append({"function": {"name": part["function"]["name"], "arguments": ""}})
                    function = message["tool_calls"][part["index"]]["function"]
                    function["arguments"] += part["function"].get("arguments") or ""
        return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}

    def read(self, answer: Mapping[str, Any]) -> Answer:
        (choice,) = answer["choices"]
        message, usage = choice["message"], answer["usage"]
        functions = [call["function"] for call in message.get("tool_calls") or ()]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return Answer(
            text=message["content"] or "",
            reasoning=message.get("reasoning_content") or "",
            calls=tuple((function["name"], json.loads(function["arguments"])) for function in functions),
            finish=choice["finish_reason"],
            usage=(usage["prompt_tokens"], cached, usage["completion_tokens"]),
        )

    def error(self, event: Json) -> str | None:
        return event["error"]["message"] if "error" in event else None


class Responses(Protocol):
    """OpenAI's newer one."""

    name = "responses"
    path = "/v1/responses"
    length = "incomplete: max_output_tokens"
    stop = "completed"

    def body(self, content: str, max_tokens: int, *, thinking: int = 0, **fields: Any) -> Json:
        switch: Json = {"max_thinking_tokens": thinking} if thinking else {"reasoning": {"effort": "none"}}
        common = {"model": SERVED, "input": content, "max_output_tokens": max_tokens, "temperature": 0}
        return {**common, "store": False, **switch, **fields}

    def tool(self, name: str, schema: Json) -> Json:
        # Said to be strict unless it says otherwise, and strict schemas must name a type everywhere.
        tool = {"type": "function", "name": name, "parameters": schema, "strict": False}
        return {"tools": [tool], "tool_choice": "required"}

    def schema(self, schema: Json) -> Json:
        return {"text": {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}}}

    def whole(self, events: Sequence[Json]) -> Json:
        last: Json = events[-1]["response"]
        return last

    def read(self, answer: Mapping[str, Any]) -> Answer:
        usage, output = answer["usage"], answer["output"]
        texts = {"message": "", "reasoning": ""}
        for item in output:
            for part in item.get("content") or ():
                texts[item["type"]] += part["text"]
        calls = [item for item in output if item["type"] == "function_call"]
        reason = (answer.get("incomplete_details") or {}).get("reason")
        return Answer(
            text=texts["message"],
            reasoning=texts["reasoning"],
            calls=tuple((call["name"], json.loads(call["arguments"])) for call in calls),
            finish=answer["status"] + (f": {reason}" if reason else ""),
            usage=(usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]),
        )

    def error(self, event: Json) -> str | None:
        if event["type"] == "response.failed":
            message: str = event["response"]["error"]["message"]
            return message
        return event["message"] if event["type"] == "error" else None


class Messages(Protocol):
    """Anthropic's."""

    name = "messages"
    path = "/v1/messages"
    length = "max_tokens"
    stop = "end_turn"

    def body(self, content: str, max_tokens: int, *, thinking: int = 0, **fields: Any) -> Json:
        switch = {"type": "enabled", "budget_tokens": thinking} if thinking else {"type": "disabled"}
        messages = [{"role": "user", "content": content}]
        common = {"model": SERVED, "messages": messages, "max_tokens": max_tokens, "thinking": switch}
        return {**common, "temperature": 0, **fields}

    def tool(self, name: str, schema: Json) -> Json:
        return {"tools": [{"name": name, "input_schema": schema}], "tool_choice": {"type": "any"}}

    def schema(self, schema: Json) -> Json:
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def whole(self, events: Sequence[Json]) -> Json:
        answer: Json = {"content": [], "usage": {}}
        for event in events:
            match event["type"]:
                case "message_start":
                    answer["usage"] |= event["message"]["usage"]
                case "content_block_start":
                    answer["content"].append({**event["content_block"], "input": ""})
                case "content_block_delta":
                    block, delta = answer["content"][event["index"]], event["delta"]
                    name = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
                    if delta["type"] in name:
                        member = "input" if delta["type"] == "input_json_delta" else name[delta["type"]]
                        block[member] += delta[name[delta["type"]]]
                case "message_delta":
                    answer["stop_reason"] = event["delta"]["stop_reason"]
                    answer["usage"] |= event["usage"]
        for block in answer["content"]:
            block["input"] = json.loads(block["input"] or "{}")
        return answer

    def read(self, answer: Mapping[str, Any]) -> Answer:
        blocks, usage = answer["content"], answer["usage"]
        cached = usage["cache_read_input_tokens"]
        return Answer(
            text="".join(block["text"] for block in blocks if block["type"] == "text"),
            reasoning="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
            calls=tuple((block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"),
            finish=answer["stop_reason"],
            # Anthropic counts what was cached apart.
            usage=(usage["input_tokens"] + cached, cached, usage["output_tokens"]),
        )

    def error(self, event: Json) -> str | None:
        return event["error"]["message"] if event["type"] == "error" else None


CHAT: Final = ChatCompletions()
PROTOCOLS: Final = (CHAT, Responses(), Messages())

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
