"""API keys and request ids over the wire."""

from __future__ import annotations

import openai
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import chat_body

CHAT = "/v1/chat/completions"


def test_without_a_key_every_path_but_health_is_a_401(start_server: StartServer) -> None:
    server = start_server("--api-key", "one", "--api-key", "two")
    assert server.http.get("/health").status_code == 200
    for path in ("/v1/models", "/metrics", "/nowhere"):
        assert server.http.get(path).status_code == 401
    for path, is_messages in ((CHAT, False), ("/v1/responses", False), ("/v1/messages", True)):
        response = server.http.post(path, json=chat_body("Hello"), headers={"x-api-key": "three"})
        assert response.status_code == 401
        body = response.json()
        assert "API key" in body["error"]["message"]
        assert (body.get("type") == "error") == is_messages
    assert server.stop() == 0
    assert "three" not in server.log and "one" not in server.log.replace("none", "")


@pytest.mark.parametrize("headers", [{"authorization": "Bearer two"}, {"x-api-key": "one"}])
def test_either_header_carries_a_key(start_server: StartServer, headers: dict[str, str]) -> None:
    server = start_server("--api-key", "one", "--api-key", "two")
    assert server.http.post(CHAT, json=chat_body("Hello"), headers=headers).status_code == 200


def test_the_client_raises_its_authentication_error(start_server: StartServer) -> None:
    server = start_server("--api-key", "one")
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()


def test_request_ids_are_echoed_and_logged(start_server: StartServer) -> None:
    server = start_server()
    response = server.http.post(CHAT, json=chat_body("Hello"), headers={"x-request-id": "my-id-7"})
    assert response.headers["x-request-id"] == "my-id-7"
    made = server.http.get("/v1/models").headers["x-request-id"]
    assert made.startswith("req_")
    assert server.stop() == 0
    assert "request_id=my-id-7" in server.log and f"request_id={made}" in server.log


def test_the_log_holds_no_text_of_prompt_or_answer(start_server: StartServer) -> None:
    server = start_server("--log-level", "debug")
    assert server.http.post(CHAT, json=chat_body("Hello Mister Quetzalcoatl")).status_code == 200
    assert server.stop() == 0
    assert "completion_tokens=" in server.log
    assert "Quetzalcoatl" not in server.log and "Ask me about" not in server.log


def test_served_names_are_the_only_ones(start_server: StartServer) -> None:
    server = start_server("--served-model-name", "deepseek-chat", "--served-model-name", "org/model")
    listing = server.http.get("/v1/models").json()
    assert [model["id"] for model in listing["data"]] == ["deepseek-chat", "org/model"]
    assert server.http.get("/v1/models/org/model").json()["id"] == "org/model"
    assert server.http.post(CHAT, json={**chat_body("Hello"), "model": "org/model"}).status_code == 200
    assert server.http.post(CHAT, json=chat_body("Hello")).status_code == 404
