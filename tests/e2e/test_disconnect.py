"""Clients that leave or do not read: their requests end and their memory comes back."""

from __future__ import annotations

import socket

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, chat_body, eventually, raw_post

CHAT = "/v1/chat/completions"


def disconnects(server: ServerProcess) -> int:
    return server.log.count("finish_reason=disconnected")


def at_rest(server: ServerProcess) -> bool:
    health = server.health()
    return (health["running"], health["waiting"], health["cache_bytes"]) == (0, 0, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_a_scripted_request(scripted_server: ServerProcess, stream: bool) -> None:
    before = disconnects(scripted_server)
    with scripted_server.connect() as connection:
        connection.sendall(raw_post(CHAT, chat_body("never end", stream=stream)))
        eventually(lambda: scripted_server.health()["running"] == 1)
    eventually(lambda: at_rest(scripted_server))
    eventually(lambda: disconnects(scripted_server) == before + 1)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_frees_the_native_cache(native_server: ServerProcess, stream: bool) -> None:
    before = disconnects(native_server)
    with native_server.connect() as connection:
        connection.sendall(raw_post(CHAT, chat_body("Hello", stream=stream, max_tokens=30_000)))
        eventually(lambda: native_server.health()["cache_bytes"] > 0)
    eventually(lambda: at_rest(native_server))
    eventually(lambda: disconnects(native_server) == before + 1)


def test_leaving_in_the_middle_of_a_stream_with_an_http_client(scripted_server: ServerProcess) -> None:
    before = disconnects(scripted_server)
    with scripted_server.http.stream("POST", CHAT, json=chat_body("never end", stream=True)) as response:
        assert response.status_code == 200
        assert next(response.iter_lines()).startswith("data: ")
    eventually(lambda: at_rest(scripted_server))
    eventually(lambda: disconnects(scripted_server) == before + 1)


def test_connection_can_be_used_again_after_an_answer(scripted_server: ServerProcess) -> None:
    with httpx.Client(base_url=scripted_server.url) as client:
        for stream in (True, False, True):
            response = client.post(CHAT, json=chat_body("Hello", stream=stream))
            assert response.status_code == 200
            assert "Hello! Ask me" in response.text or stream


def test_slow_reader_takes_no_memory_and_stops_nobody(scripted_server: ServerProcess) -> None:
    before = scripted_server.gauge("process_resident_memory_bytes")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(scripted_server.address)
        connection.sendall(raw_post(CHAT, chat_body("flood", stream=True)))
        # The whole answer is about 40 MB of events: a server that does not wait for its reader has made all of it
        # long before these many other answers are through.
        for _ in range(100):
            assert scripted_server.http.post(CHAT, json=chat_body("Hello")).status_code == 200
        assert scripted_server.health()["running"] == 1
        assert scripted_server.gauge("process_resident_memory_bytes") - before < 16_000_000
    eventually(lambda: at_rest(scripted_server))
