"""Limits of keys, pages of other origins, cancelling, and what answers tell in their headers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import ServerProcess, chat_body, eventually

CHAT = "/v1/chat/completions"
MESSAGES = chat_body("Hello", max_tokens=100)


def test_a_rate_is_kept_in_each_protocols_words(start_server: StartServer) -> None:
    server = start_server("--api-key", "one", "--api-key", "two", "--requests-per-minute", "1")
    bodies = {"/v1/messages": MESSAGES, CHAT: chat_body("Hello"), "/v1/responses": {"model": "x", "input": "x"}}
    assert server.http.post(CHAT, json=bodies[CHAT], headers={"x-api-key": "one"}).status_code == 200
    for path, body in bodies.items():
        response = server.http.post(path, json=body, headers={"x-api-key": "one"})
        assert response.status_code == 429
        assert 1 <= int(response.headers["retry-after"]) <= 60
        error = response.json()
        assert error["error"]["type"] == "rate_limit_error" and (error.get("type") == "error") == ("messages" in path)
    assert server.http.post(CHAT, json=bodies[CHAT], headers={"x-api-key": "two"}).status_code == 200
    assert server.http.get("/v1/models", headers={"x-api-key": "one"}).status_code == 200
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="one", max_retries=0) as oa:
        with pytest.raises(openai.RateLimitError) as caught:
            oa.chat.completions.create(**bodies[CHAT])
        assert caught.value.code == "rate_limit_exceeded"
    with (
        anthropic.Anthropic(base_url=server.url, api_key="two", max_retries=0) as an,
        pytest.raises(anthropic.RateLimitError),
    ):
        an.messages.create(**MESSAGES)


def test_requests_at_a_time_are_bounded_and_freed(start_server: StartServer) -> None:
    server = start_server("--concurrent-requests", "1")
    with server.http.stream("POST", CHAT, json=chat_body("never end", stream=True)) as response:
        lines = response.iter_lines()
        next(lines)
        refused = server.http.post(CHAT, json=chat_body("Hello"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "concurrency_limit_exceeded")
        assert "retry-after" in refused.headers
        next(lines)
    eventually(lambda: server.http.post(CHAT, json=chat_body("Hello")).status_code == 200)


def test_keys_of_a_file_come_and_go(start_server: StartServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one\n")
    server = start_server("--api-key-file", str(keys))

    def status(key: str) -> int:
        return server.http.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code

    assert (status("one"), status("two")) == (200, 401)
    keys.write_text("two\nthree\n")
    eventually(lambda: (status("one"), status("two"), status("three")) == (401, 200, 200))


def test_pages_of_other_origins_are_let_in_only_if_named(start_server: StartServer) -> None:
    preflight = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    closed = start_server("--api-key", "one")
    response = closed.http.options(CHAT, headers=preflight)
    assert response.status_code == 401 and "access-control-allow-origin" not in response.headers
    opened = start_server("--api-key", "one", "--cors-origin", "https://app.example")
    response = opened.http.options(CHAT, headers=preflight)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in response.headers["access-control-allow-headers"].lower()
    headers = {"origin": "https://app.example", "authorization": "Bearer one"}
    answer = opened.http.post(CHAT, json=chat_body("Hello"), headers=headers)
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    other = opened.http.options(CHAT, headers={**preflight, "origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def endless(path: str, **fields: Any) -> dict[str, Any]:
    """A request whose answer does not end by itself."""
    match path:
        case "/v1/responses":
            return {"model": "deepinfer-tiny", "input": "never end", **fields}
        case "/v1/completions":
            return {"model": "deepinfer-tiny", "prompt": "never end", "max_tokens": 100_000, **fields}
    return chat_body("never end", max_tokens=100_000, **fields)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/completions"])
def test_a_plain_request_is_cancelled_by_its_id(scripted_server: ServerProcess, path: str) -> None:
    headers = {"x-request-id": f"cancel-{path}"}
    with ThreadPoolExecutor() as pool:
        answering = pool.submit(httpx.post, scripted_server.url + path, json=endless(path), headers=headers, timeout=60)
        eventually(lambda: scripted_server.health()["running"] == 1)
        cancelled = scripted_server.http.delete(f"/v1/requests/{headers['x-request-id']}")
        answer = answering.result()
    assert cancelled.json() == {"id": headers["x-request-id"], "cancelled": 1}
    assert answer.status_code == 499 and "cancelled" in answer.json()["error"]["message"]
    assert scripted_server.health()["running"] == 0
    again = scripted_server.http.delete(f"/v1/requests/{headers['x-request-id']}")
    assert again.status_code == 404 and "no request with the id" in again.json()["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/completions"])
def test_a_stream_is_cancelled_by_its_own_key_only(start_server: StartServer, path: str) -> None:
    server = start_server("--api-key", "one", "--api-key", "two")
    headers = {"x-api-key": "one", "x-request-id": "mine"}
    with server.http.stream("POST", path, json=endless(path, stream=True), headers=headers) as response:
        lines = response.iter_lines()
        next(lines)
        assert server.http.delete("/v1/requests/mine", headers={"x-api-key": "two"}).status_code == 404
        assert server.http.delete("/v1/requests/mine", headers={"x-api-key": "one"}).status_code == 200
        assert "cancelled by its client" in "".join(lines)
    assert server.http.get("/health").json()["running"] == 0


def test_warnings_are_shown_and_logged(start_server: StartServer) -> None:
    server = start_server()
    tools = [{"type": "web_search"}] * 200
    response = server.http.post("/v1/responses", json={"model": "deepinfer-tiny", "input": "Hello", "tools": tools[:1]})
    assert json.loads(response.headers["x-deepinfer-warnings"]) == ["tools[0]: the tool web_search was left out"]
    many = server.http.post("/v1/responses", json={"model": "deepinfer-tiny", "input": "Hello", "tools": tools})
    shown = json.loads(many.headers["x-deepinfer-warnings"])
    assert len(many.headers["x-deepinfer-warnings"]) <= 1000
    assert shown[0] == "tools[0]: the tool web_search was left out" and shown[-1].endswith("more")
    plain = server.http.post(CHAT, json=chat_body("Hello"))
    assert "x-deepinfer-warnings" not in plain.headers
    assert plain.headers["x-deepinfer-queue-position"] == "0"
    assert server.stop() == 0
    assert "web_search was left out" in server.log


def test_texts_are_logged_only_if_that_is_asked_for(start_server: StartServer) -> None:
    server = start_server("--log-prompts")
    assert server.http.post(CHAT, json=chat_body("Hello Mister Quetzalcoatl")).status_code == 200
    body = {"model": "deepinfer-tiny", "input": "count slowly", "background": True}
    assert server.http.post("/v1/responses", json=body).status_code == 200
    assert server.stop() == 0
    assert "count slowly" in server.log and "17 18 19 20" in server.log
    assert "Quetzalcoatl" in server.log and "Ask me about" in server.log
