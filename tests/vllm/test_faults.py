"""Clients that leave, and requests that vLLM refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess, eventually, raw_post
from tests.vllm.conftest import start_gateway
from tests.vllm.protocols import CHAT, SERVED, Protocol, every_protocol, streamed_or_not
from tests.vllm.vllm_process import CONTEXT, VllmProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

MOST = 1900


@every_protocol
@streamed_or_not
def test_a_client_that_leaves_ends_the_work_of_vllm(
    vllm: VllmProcess, gateway: ServerProcess, protocol: Protocol, stream: bool
) -> None:
    before = vllm.count("generation_tokens_total")
    body = protocol.body("Talk.", MOST)
    with gateway.connect() as connection:
        connection.sendall(raw_post(protocol.path, protocol.streaming(body) if stream else body))
        eventually(lambda: vllm.count("generation_tokens_total") > before)
        assert vllm.count("num_requests_running") == 1
    eventually(lambda: vllm.count("num_requests_running") == 0)
    assert vllm.count("generation_tokens_total") - before < MOST
    eventually(lambda: gateway.health()["running"] == 0)


@every_protocol
def test_a_prompt_that_is_too_long_is_refused_by_the_gateway(gateway: ServerProcess, protocol: Protocol) -> None:
    response = gateway.http.post(protocol.path, json=protocol.body("word " * CONTEXT, 10))
    assert response.status_code == 400
    assert str(CONTEXT) in response.json()["error"]["message"]


@every_protocol
def test_what_vllm_refuses_is_refused_in_its_words(vllm: VllmProcess, protocol: Protocol, tmp_path: Path) -> None:
    body = protocol.body("word " * CONTEXT, 10)
    with start_gateway(vllm.url, tmp_path / "log", "--context-length", str(2 * CONTEXT)) as gateway:
        response = gateway.http.post(protocol.path, json=body)
        streamed = gateway.http.post(protocol.path, json=protocol.streaming(body))
    for refused in (response, streamed):
        assert refused.status_code == 400, refused.text
        message = refused.json()["error"]["message"]
        assert f"{CONTEXT}" in message and vllm.url in message


def test_a_grammar_that_is_none_is_refused(gateway: ServerProcess) -> None:
    wrong = {"grammar": "start: nosuch"}
    response = gateway.http.post(CHAT.path, json=CHAT.body("Hi", 10, structured_outputs=wrong))
    assert response.status_code == 400
    assert "nosuch" in response.json()["error"]["message"]


def test_vllm_goes_on_after_refusals(vllm: VllmProcess, gateway: ServerProcess) -> None:
    listed = gateway.http.get("/v1/models").json()["data"]
    assert [(model["id"], model["max_model_len"]) for model in listed] == [(SERVED, CONTEXT)]
    assert gateway.health()["ready"]
    assert gateway.gauge(f'deepinfer_upstream_ready{{upstream="{vllm.url}"}}') == 1
