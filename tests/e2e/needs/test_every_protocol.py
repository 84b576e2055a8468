"""What holds for all three protocols alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.needs.conftest import MODEL, LoggingServer
from tests.e2e.needs.test_chat_completions import Prompt, ask

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "look", "description": "d", "parameters": SCHEMA}]
MESSAGES_TOOLS: Any = [{"name": "look", "description": "d", "input_schema": SCHEMA}]


def test_one_conversation_has_one_prompt(oa: Any, an: Any, prompt_of: Prompt) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Oslo"}'}}
    chat: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "content": "One moment.", "reasoning_content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Lookup result"},
    ]
    responses: list[Any] = [
        {"role": "user", "content": "look it up"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I look."}]},
        {"role": "assistant", "content": "One moment."},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "Lookup result"},
    ]
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "I look.", "signature": ""},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"city": "Oslo"}},
    ]
    messages: list[Any] = [
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Lookup result"}]},
    ]
    prompts = {
        prompt_of(lambda: oa.chat.completions.create(model=MODEL, messages=chat, tools=CHAT_TOOLS)),
        prompt_of(
            lambda: oa.responses.create(model=MODEL, input=responses, instructions="Be brief.", tools=RESPONSES_TOOLS)
        ),
        prompt_of(
            lambda: an.messages.create(
                model=MODEL,
                max_tokens=100,
                system="Be brief.",
                messages=messages,
                tools=MESSAGES_TOOLS,
                thinking={"type": "enabled", "budget_tokens": 1024},
            )
        ),
    }
    assert len(prompts) == 1


@pytest.mark.parametrize("question", ["emoji", "look it up", "two cities", "restate"])
def test_no_text_is_broken_and_no_markup_is_shown(oa: Any, an: Any, server: LoggingServer, question: str) -> None:
    bodies = {
        "/v1/chat/completions": ask(question, tools=CHAT_TOOLS, stream=True),
        "/v1/messages": ask(question, tools=MESSAGES_TOOLS, stream=True, max_tokens=500),
        "/v1/responses": {"model": MODEL, "input": question, "tools": RESPONSES_TOOLS, "stream": True},
    }
    for path, body in bodies.items():
        text = server.http.post(path, json=body).text
        assert "\ufffd" not in text and "DSML" not in text and "</think>" not in text
        for line in text.splitlines():
            if line.startswith("data: {"):
                json.loads(line[6:])
    message = oa.chat.completions.create(**ask("emoji")).choices[0].message
    assert (message.model_extra["reasoning_content"], message.content) == ("思考🤔", "Grüße 世界 🏳️\u200d🌈 naïve")
