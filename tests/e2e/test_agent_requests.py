"""What Claude Code and Codex were seen to send, with filler for texts: answered, in streams that the SDKs can fold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import ServerProcess

REQUESTS = Path(__file__).with_name("agent_requests")
MODEL = "DeepSeek-V4.1-Flash"


def request_of(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((REQUESTS / f"{name}.json").read_text(encoding="utf-8"))
    assert body.pop("stream") is True
    return body


@pytest.fixture
def server(start_server: StartServer) -> Iterator[ServerProcess]:
    yield start_server("--served-model-name", MODEL)


@pytest.mark.parametrize("turn", ["claude_code_turn1", "claude_code_turn2"])
def test_claude_code(server: ServerProcess, turn: str) -> None:
    body = request_of(turn)
    known = {name: body.pop(name) for name in ("model", "messages", "max_tokens")}
    counted_fields = {name: body[name] for name in ("system", "tools", "thinking")}
    with anthropic.Anthropic(base_url=server.url, api_key="test", max_retries=0, timeout=50) as client:
        with client.messages.stream(**known, extra_body=body) as stream:
            streamed = stream.get_final_message()
        whole = client.messages.create(**known, extra_body=body)
        counted = client.messages.count_tokens(model=MODEL, messages=known["messages"], extra_body=counted_fields)
    assert [block.type for block in streamed.content] == ["thinking", "text"]
    assert streamed.stop_reason == "end_turn"
    assert whole.content[1].to_dict() == streamed.content[1].to_dict()
    total = streamed.usage.input_tokens + (streamed.usage.cache_read_input_tokens or 0)
    assert total >= counted.input_tokens > 10_000
    assert (whole.usage.cache_read_input_tokens or 0) == total - 1


@pytest.mark.parametrize("turn", ["codex_turn1", "codex_turn2"])
def test_codex(server: ServerProcess, turn: str) -> None:
    body = request_of(turn)
    known = {name: body.pop(name) for name in ("model", "input")}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0) as client:
        with client.responses.stream(**known, extra_body=body) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
        whole = client.responses.create(**known, extra_body=body)
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [item.type for item in streamed.output] == ["reasoning", "message"]
    assert whole.output_text == streamed.output_text != ""
    assert whole.usage is not None and streamed.usage is not None
    assert whole.usage.input_tokens == streamed.usage.input_tokens > 5_000
    assert whole.usage.input_tokens_details.cached_tokens == whole.usage.input_tokens - 1
