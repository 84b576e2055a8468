"""Signals: running answers finish or end with an error, and the process ends with status 0."""

from __future__ import annotations

import json
import signal

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import chat_body, raw_post

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_ends_at_once(start_server: StartServer, number: signal.Signals) -> None:
    server = start_server()
    assert server.http.get("/health").status_code == 200
    assert server.stop(number) == 0
    assert "Traceback" not in server.log


def test_running_stream_finishes_and_new_connections_are_refused(start_server: StartServer) -> None:
    server = start_server()
    with server.http.stream("POST", CHAT, json=chat_body("count slowly", stream=True)) as response:
        lines = response.iter_lines()
        text = next(lines)
        server.process.send_signal(signal.SIGTERM)
        text += "\n".join(lines)
    assert text.rstrip().endswith("data: [DONE]")
    assert '"finish_reason":"stop"' in text.replace(": ", ":")
    assert server.process.wait(timeout=30) == 0
    with pytest.raises(httpx.ConnectError):
        server.http.get("/health")


def test_running_plain_answer_finishes(start_server: StartServer) -> None:
    server = start_server()
    with server.connect() as connection:
        connection.sendall(raw_post(CHAT, chat_body("count slowly")))
        while server.health()["running"] == 0:
            pass
        server.process.send_signal(signal.SIGTERM)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"19 20" in answer
    assert server.process.wait(timeout=30) == 0


def test_stream_that_takes_too_long_ends_with_an_error(start_server: StartServer) -> None:
    server = start_server("--shutdown-seconds", "0.2")
    with server.http.stream("POST", CHAT, json=chat_body("never end", stream=True)) as response:
        lines = response.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        events = [line for line in lines if line.startswith("data: {")]
    assert "shutting down" in json.loads(events[-1].removeprefix("data: "))["error"]["message"]
    assert server.process.wait(timeout=30) == 0
    assert "error=server_shutting_down" in server.log


def test_plain_answer_that_takes_too_long_ends_with_a_503(start_server: StartServer) -> None:
    server = start_server("--shutdown-seconds", "0.2")
    with httpx.Client(base_url=server.url) as client, server.connect() as connection:
        connection.sendall(raw_post(CHAT, chat_body("never end")))
        while client.get("/health").json()["running"] == 0:
            pass
        server.process.send_signal(signal.SIGTERM)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"shutting down" in answer
    assert server.process.wait(timeout=30) == 0
