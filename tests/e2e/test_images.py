"""Images in requests, over real sockets: counted where a model reads them, refused by their path where none does."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import openai
import pytest

from deepinfer.server.images.tokens import image_tokens
from tests.e2e.server_process import ServerProcess
from tests.server.images.test_image_content import encoded

PNG = encoded("PNG", (800, 600))
DATA_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def chat(url: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"model": "deepinfer-tiny", "messages": [{"role": "user", "content": parts}]}


def test_an_image_counts_as_many_tokens_as_the_model_takes(scripted_server: ServerProcess) -> None:
    tokens = image_tokens(800, 600)
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as client:
        seen = client.chat.completions.create(**chat(DATA_URL))
        twice = chat(DATA_URL)
        twice["messages"][0]["content"].append(twice["messages"][0]["content"][1])
        more = client.chat.completions.create(**twice)
    assert seen.usage is not None and more.usage is not None
    assert seen.choices[0].message.content
    # The second image stands two newlines, one token, after the first.
    assert more.usage.prompt_tokens - seen.usage.prompt_tokens == tokens + 1


def test_messages_and_their_count_agree(scripted_server: ServerProcess) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    messages: Any = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    with anthropic.Anthropic(base_url=scripted_server.url, api_key="none", max_retries=0) as client:
        counted = client.messages.count_tokens(model="deepinfer-tiny", messages=messages)
        answer = client.messages.create(model="deepinfer-tiny", max_tokens=1, messages=messages)
    assert counted.input_tokens > image_tokens(800, 600)
    assert answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) == counted.input_tokens


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a.png", "http://localhost/a.png", "http://[::1]/a.png"])
def test_the_servers_own_network_is_out_of_reach(scripted_server: ServerProcess, url: str) -> None:
    answer = scripted_server.http.post("/v1/chat/completions", json=chat(url))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "image_not_fetched", ".messages[0]")
    assert "not public" in error["message"]


def test_what_is_no_image_is_named(scripted_server: ServerProcess) -> None:
    answer = scripted_server.http.post("/v1/chat/completions", json=chat("data:image/png;base64,aGVsbG8="))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_image", ".messages[0]")


def test_a_text_model_names_the_image_it_cannot_read(native_server: ServerProcess) -> None:
    answer = native_server.http.post("/v1/chat/completions", json=chat(DATA_URL))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "images_not_supported", ".messages[0]")
    assert ".messages[0]" in error["message"]
