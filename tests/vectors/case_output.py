"""Runs the output of a decode case through a decoder, and folds what comes out to what the case can expect."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import deepseek_recipe as recipe
from tests.vectors.encode_rows import MODELS, PROTOCOLS, TOKENIZER
from tests.vectors.folds import fold, frames, masked

Input = dict[str, Any]
Piece = str | list[int]

EOS = "<id:eos>"


@dataclass
class Answer:
    """What a client sees of an answer, whatever the protocol."""

    visible: Any
    """Stream and full response, folded, without counts of tokens: text alone has none."""
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    """Name, text of the arguments, whether the call is complete."""
    finish: str | None = None
    stop_reason: str | None = None
    terminal: str | None = None
    block_types: list[str] = field(default_factory=list)
    item_types: list[str] = field(default_factory=list)
    input: str | None = None
    streamed: Any = None
    """What the stream says, in the form of `whole`."""
    whole: Any = None
    """What the full response says."""


@dataclass
class Decoding:
    """A case's request: makes a decoder for each way to cut the output."""

    api: str
    request: recipe.Encoded
    stop: list[str]
    finish: str | None
    tokenizer: recipe.Tokenizer

    def answer(self, chunks: Sequence[Piece]) -> Answer:
        """The answer that some chunks give."""
        decoder = self.decoder()
        sent = decoder.start()
        events = []
        for chunk in chunks:
            sent += decoder.push_text(chunk) if isinstance(chunk, str) else decoder.push(chunk)
            events += decoder.events()
        sent += decoder.finish(self.finish)
        events += decoder.events()
        return seen(self.api, events, fold(self.api, frames(sent)), masked(json.loads(decoder.response())))

    def decoder(self) -> recipe.Decoder:
        """A decoder, as the request makes one, with the case's stop sequences and tokenizer."""
        asked = self.request.parsing
        parsing = recipe.Parsing(
            initial_stage=asked.initial_stage,
            parse_tool_calls=asked.parse_tool_calls,
            starts_in_tool_calls=asked.starts_in_tool_calls,
            parse_json_output=asked.parse_json_output,
            stop_sequences=self.stop,
            declared_tools=asked.declared_tools,
        )
        return recipe.Decoder(
            PROTOCOLS[self.api],
            parsing,
            id="case",
            model=self.request.model,
            created=0,
            seed=b"case",
            thinking=self.request.thinking,
            custom_tools=self.request.custom_tools,
            namespace_tools=self.request.namespace_tools,
            echo=self.request.echo,
            tokenizer=self.tokenizer,
        )


def decoding(given: Input) -> Decoding:
    """The request that a case describes."""
    api, model = given["api"], given.get("model", "DeepSeek-V4-Pro")
    request = recipe.encode(body(given, api, model), PROTOCOLS[api], options=recipe.Options(models=MODELS))
    if "token_bytes_hex" in given:
        tokenizer = byte_tokenizer(tuple(given["token_bytes_hex"]))
    else:
        tokenizer = recipe.Tokenizer.built_in(request.model_version)
    stop = given.get("stop", [])
    return Decoding(
        api=api,
        request=request,
        stop=[stop] if isinstance(stop, str) else stop,
        finish=given.get("finish"),
        tokenizer=tokenizer,
    )


def body(given: Input, api: str, model: str) -> Input:
    """A request with a case's tools and settings."""
    schema = {"type": "object", "properties": {}}
    names, thinks = given.get("tools") or [], given.get("thinking", False)
    request: Input = {"model": model}
    if api == "messages":
        tools = [{"name": name, "input_schema": schema} for name in names]
    elif api == "responses":
        tools = [{"type": "function", "name": name, "parameters": schema} for name in names]
        tools += [{"type": "custom", "name": name} for name in given.get("custom_tools", [])]
    else:
        tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
        tools += [{"type": "custom", "custom": {"name": name}} for name in given.get("custom_tools", [])]
    if tools:
        request["tools"] = tools
    if api == "responses":
        request |= {"input": "x", "reasoning": {"effort": "medium" if thinks else "none"}}
    else:
        request |= {"messages": [{"role": "user", "content": "x"}]}
        request["thinking"] = {"type": "enabled" if thinks else "disabled"}
    if api == "messages":
        request["max_tokens"] = 4096
        if thinks:
            request["thinking"]["budget_tokens"] = 2048
    if "tool_choice" in given:
        choice = given["tool_choice"]
        request["tool_choice"] = {"type": choice} if api == "messages" and isinstance(choice, str) else choice
    return request


def pieces(given: Input) -> Piece:
    """The output of a case: a text, or ids."""
    if "output" in given:
        text: str = given["output"]
        return text
    if "token_bytes_hex" in given:
        return [256 + place for place in range(len(given["token_bytes_hex"]))]
    return [id for piece in given["token_pieces"] for id in ids_of(given, piece)]


def ids_of(given: Input, piece: str) -> list[int]:
    """The ids of one piece of a case's output."""
    version = MODELS[given.get("model", "DeepSeek-V4-Pro")]
    if piece == EOS:
        return [recipe.eos_token_id(version)]
    return recipe.Tokenizer.built_in(version).encode(piece, special=True)


@functools.cache
def byte_tokenizer(tokens: tuple[str, ...]) -> recipe.Tokenizer:
    """A tokenizer with one token for each byte, then one for each of `tokens`, given in hexadecimal."""
    data = json.loads(TOKENIZER.read_text(encoding="utf-8"))
    # The usual alphabet of byte-level vocabularies: printable bytes stand for themselves, the others for later letters.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + place) for place, byte in enumerate(sorted(set(range(256)) - set(printable)))}
    vocabulary = {letters[byte]: byte for byte in range(256)}
    for place, token in enumerate(tokens):
        spelling = "".join(letters[byte] for byte in bytes.fromhex(token))
        vocabulary.pop(spelling, None)
        vocabulary[spelling] = 256 + place
    data["model"] |= {"vocab": vocabulary, "merges": []}
    data["added_tokens"] = []
    return recipe.Tokenizer(json.dumps(data, ensure_ascii=False).encode())


def seen(api: str, events: list[recipe.Event], stream: Input, response: Input) -> Answer:
    """Folds an answer to what a case can expect."""
    answer = Answer(visible=without_usage([stream, response]))
    names, arguments, complete = [], [], []
    for event in events:
        match event:
            case recipe.Event.Text(text):
                answer.content += text
            case recipe.Event.Reasoning(text):
                answer.reasoning += text
            case recipe.Event.CallStart(_, name):
                names.append(name)
                arguments.append("")
            case recipe.Event.CallArguments(_, fragment):
                arguments[-1] += fragment
            case recipe.Event.CallEnd(_, is_complete):
                complete.append(is_complete)
    answer.calls = list(zip(names, arguments, complete, strict=True))
    {"chat": see_chat, "messages": see_messages, "responses": see_responses}[api](answer, stream, response)
    return answer


def without_usage(value: Any) -> Any:
    """`value` without counts of tokens."""
    if isinstance(value, dict):
        return {key: without_usage(item) for key, item in value.items() if key != "usage"}
    return [without_usage(item) for item in value] if isinstance(value, list) else value


def see_chat(answer: Answer, stream: Input, response: Input) -> None:
    """What a Chat Completions client sees."""
    (choice,), (whole,) = stream["choices"], response["choices"]
    answer.finish = choice["finish_reason"]
    message = whole["message"]
    answer.streamed = [choice["content"], choice["reasoning_content"], choice["calls"], choice["finish_reason"]]
    called = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls", [])]
    answer.whole = [message["content"], message.get("reasoning_content"), called, whole["finish_reason"]]


def see_messages(answer: Answer, stream: Input, response: Input) -> None:
    """What a Messages client sees."""
    answer.stop_reason = stream["stop_reason"]
    answer.block_types = [block["type"] for block in stream["blocks"]]
    blocks = [{key: item for key, item in block.items() if key not in ("json", "input")} for block in stream["blocks"]]
    whole = [{key: item for key, item in block.items() if key != "input"} for block in response["content"]]
    answer.streamed = [blocks, stream["stop_reason"], stream["stop_sequence"]]
    answer.whole = [whole, response["stop_reason"], response["stop_sequence"]]


def see_responses(answer: Answer, stream: Input, response: Input) -> None:
    """What a Responses client sees."""
    answer.terminal = stream["last"]
    answer.item_types = [item["type"] for item in stream["items"]]
    inputs = [item["input"] for item in stream["items"] if item["type"] == "custom_tool_call"]
    answer.input = "".join(inputs) if inputs else None
    answer.streamed = [stream["items"], stream["last"], stream["incomplete_details"]]
    answer.whole = [response["output"], f"response.{response['status']}", response["incomplete_details"]]
