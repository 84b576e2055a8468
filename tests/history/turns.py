"""Answers that a model cuts in unusual tokens, and what the official clients send back of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anthropic
import openai

import deepseek_recipe as recipe
from tests.decode.sdk_server import Prepared, SdkServer

KEY = b"a secret of tests"
MODELS = {"v4": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
REASONING = "The user wants an unbelievable answer. I should take a careful look."
CONTENT = "Looking at the neighbourhood."


def options(key: bytes | None = KEY) -> recipe.Options:
    """Options with token-faithful history."""
    return recipe.Options(history_key=key)


def output(
    version: str, parameters: Sequence[str] = (' name="at" string="true">the garden',), between: str = "\n"
) -> str:
    """An answer that reasons, speaks and calls. A parameter is what follows the word of its tag."""
    space, word = (" ", "calls") if version == "v4.1" else ("", "tool_calls")
    written = "".join(
        f"<｜DSML｜{space}parameter{parameter}</｜DSML｜{space}parameter>{between}" for parameter in parameters
    )
    return (
        f"{REASONING}</think>{CONTENT}\n\n<｜DSML｜{space}{word}>{between}"
        f'<｜DSML｜{space}invoke name="look">{between}{written}</｜DSML｜{space}invoke>{between}'
        f"</｜DSML｜{space}{word}><｜end▁of▁sentence｜>"
    )


def unusual_ids(text: str) -> list[int]:
    """Ids of a text in which each token of several letters is cut after its second letter."""
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    ids: list[int] = []
    for id in tokenizer.encode(text, special=True):
        piece = tokenizer.decode([id])
        cut = [piece[:2], piece[2:]] if piece.strip().isalpha() and len(piece) > 3 else None
        ids += [id] if cut is None else [part for half in cut for part in tokenizer.encode(half)]
    return ids


class Conversation:
    """A conversation over one protocol, whose client is the official one."""

    def __init__(self, protocol: str, version: str) -> None:
        schema = {"type": "object", "properties": {"at": {"type": "string"}}}
        function = {"name": "look", "parameters": schema}
        self.protocol = protocol
        self.request: dict[str, Any] = {"model": MODELS[version]}
        match protocol:
            case "chat_completions":
                self.items, tool = "messages", {"type": "function", "function": function}
            case "responses":
                self.items, tool = "input", {"type": "function", **function}
            case _:
                self.items, tool = "messages", {"name": "look", "input_schema": schema}
                self.request["max_tokens"] = 1000
        self.request["tools"] = [tool]
        self.request[self.items] = [{"role": "user", "content": "Where?"}]

    def encoded(self, options: recipe.Options | None = None) -> recipe.Encoded:
        """The prompt of the conversation so far."""
        return recipe.encode(self.request, self.protocol, options=options)

    def prepared(self, ids: list[int], options: recipe.Options) -> Prepared:
        """The answer with these ids, in both forms."""
        decoder = self.encoded(options).decoder(id="a-1", created=1, seed=b"seed")
        stream = decoder.start(prompt_tokens=1)
        stream += b"".join(decoder.push([id]) for id in ids)
        return Prepared(stream + decoder.finish("stop"), decoder.response())

    def say(self, *items: Any) -> None:
        """Adds what the client sends next."""
        self.request[self.items] += items


def answer_chat_completions(conversation: Conversation, server: SdkServer, stream: bool) -> None:
    """Asks with OpenAI's client, and adds its message and the result of its call."""
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=20)
    with client:
        if stream:
            with client.chat.completions.stream(**conversation.request) as events:
                completion: Any = events.get_final_completion()
        else:
            completion = client.chat.completions.create(**conversation.request)
    message = completion.choices[0].message
    said = message.to_dict()
    said.pop("parsed", None)
    conversation.say(said, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "a cat"})


def answer_responses(conversation: Conversation, server: SdkServer, stream: bool) -> None:
    """Asks with OpenAI's client, and adds its items and the result of its call."""
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=20)
    with client:
        if stream:
            # As an agent does that keeps each item when it is done.
            events = client.responses.create(stream=True, **conversation.request)
            items = [event.item.to_dict() for event in events if event.type == "response.output_item.done"]
        else:
            items = [item.to_dict() for item in client.responses.create(**conversation.request).output]
    call = next(item for item in items if item["type"] == "function_call")
    conversation.say(*items, {"type": "function_call_output", "call_id": call["call_id"], "output": "a cat"})


def answer_messages(conversation: Conversation, server: SdkServer, stream: bool) -> None:
    """Asks with Anthropic's client, and adds its message and the result of its call."""
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=20)
    with client:
        if stream:
            with client.messages.stream(**conversation.request) as events:
                message: Any = events.get_final_message()
        else:
            message = client.messages.create(**conversation.request)
    content = [block.to_dict() for block in message.content]
    call = next(block for block in content if block["type"] == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "a cat"}
    conversation.say({"role": "assistant", "content": content}, {"role": "user", "content": [result]})


ANSWERS = {
    "chat_completions": answer_chat_completions,
    "responses": answer_responses,
    "messages": answer_messages,
}
