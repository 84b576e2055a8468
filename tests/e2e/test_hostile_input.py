"""Inputs that no decent client sends: each gets a 4xx that says what is wrong, and the server goes on."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import ServerProcess, chat_body, eventually, raw_post

CHAT = "/v1/chat/completions"

# name -> (body, words that the message must have)
BODIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "JSON"),
    "cut": (b'{"model": "deepinfer-tiny", "messages": [', "JSON"),
    "not_json": (b"model=deepinfer-tiny", "JSON"),
    "not_utf8": (b'{"model": "\xff\xfe"}', "JSON"),
    "array": (b"[]", "body"),
    "model_missing": (b'{"messages": [{"role": "user", "content": "x"}]}', "model"),
    "model_number": (b'{"model": 7, "messages": [{"role": "user", "content": "x"}]}', "model"),
    "model_unknown": (json.dumps({**chat_body("x"), "model": "gpt-9"}).encode(), "gpt-9"),
    "messages_missing": (b'{"model": "deepinfer-tiny"}', "messages"),
    "messages_empty": (b'{"model": "deepinfer-tiny", "messages": []}', "messages"),
    "messages_text": (b'{"model": "deepinfer-tiny", "messages": "hello"}', "messages"),
    "content_number": (b'{"model": "deepinfer-tiny", "messages": [{"role": "user", "content": 5}]}', "content"),
    "max_tokens_negative": (json.dumps(chat_body("x", max_tokens=-1)).encode(), "max_tokens"),
    "max_tokens_text": (json.dumps(chat_body("x", max_tokens="many")).encode(), "max_tokens"),
    "nested": (b'{"model": "deepinfer-tiny", "messages": ' + b"[" * 200 + b"]" * 200 + b"}", "nested"),
    "nested_far": (b"[" * 1_000_000, "nested"),
    "lone_surrogate": (
        b'{"model": "deepinfer-tiny", "messages": [{"role": "user", "content": "\\ud800"}]}',
        "",
    ),
}


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Check the envelope of Chat Completions and return what is in it."""
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and "Traceback" not in error["message"]
    return error


def assert_still_answers(server: ServerProcess) -> None:
    response = server.http.post(CHAT, json=chat_body("Hello"))
    assert response.status_code == 200
    assert response.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("name", BODIES)
def test_bad_body_is_refused_with_a_reason(scripted_server: ServerProcess, name: str) -> None:
    body, words = BODIES[name]
    headers = {"content-type": "application/json"}
    response = scripted_server.http.post(CHAT, content=body, headers=headers, timeout=30)
    assert 400 <= response.status_code < 500
    assert words.lower() in error_of(response)["message"].lower()
    assert_still_answers(scripted_server)


# Every path that takes a body, with one that it accepts.
GOOD: dict[str, dict[str, Any]] = {
    CHAT: chat_body("Hello"),
    "/v1/responses": {"model": "deepinfer-tiny", "input": "Hello"},
    "/v1/messages": chat_body("Hello", max_tokens=9),
    "/v1/completions": {"model": "deepinfer-tiny", "prompt": "Hello"},
    "/v1/messages/count_tokens": chat_body("Hello"),
    "/v1/responses/input_tokens": {"model": "deepinfer-tiny", "input": "Hello"},
    "/tokenize": {"prompt": "Hello"},
    "/detokenize": {"tokens": [5, 6]},
}
DEEP = 100_000


def deep(body: dict[str, Any], opening: bytes, closing: bytes) -> bytes:
    """A good body with one more member, nested far deeper than anybody needs."""
    member = b',"extra":' + opening * DEEP + b"0" + closing * DEEP + b"}"
    return json.dumps(body).encode()[:-1] + member


def hostile_bodies(good: dict[str, Any]) -> dict[str, bytes]:
    """Bodies to be refused, made from a good one."""
    data = json.dumps(good).encode()
    field = next(name for name in good if name != "model")
    bodies = {
        "empty": b"",
        "cut": data[:-5],
        "deep arrays": deep(good, b"[", b"]"),
        "deep objects": deep(good, b'{"a":', b"}"),
        "unclosed": b'{"a":' * DEEP,
        "huge name": b'{"model": "' + b"x" * 3_000_000 + b'"}',
        "not UTF-8": data[:-1] + b',"user": "\xff"}',
        "lone surrogate": data[:-1] + b',"model": "\\ud800"}',
        "UTF-16": data.decode().encode("utf-16"),
        "byte order mark": b"\xef\xbb\xbf" + data,
        "two documents": data + data,
        "NaN": data[:-1] + b',"temperature": NaN}',
        "infinite": data[:-1] + b',"temperature": -Infinity}',
        "comment": b"/* */" + data,
        "trailing comma": data[:-1] + b",}",
        "NUL": data.replace(b"{", b"{\x00", 1),
        "array": b"[]",
        "text": b'"x"',
        "nothing": b"null",
        "number": b"1e999",
    }
    for value in (None, 7, {"a": 1}, True):
        bodies[f"{field}: {value}"] = json.dumps({**good, field: value}).encode()
    for wrong in ([1], {"a": 1}):
        bodies[f"model: {wrong}"] = json.dumps({**good, "model": wrong}).encode()
    return bodies


def assert_refused(path: str, response: httpx.Response) -> None:
    """A 4xx in the protocol's own envelope that does not tell how the server is made."""
    assert 400 <= response.status_code < 500
    content = response.json()
    assert (content.get("type") == "error") == ("/messages" in path)
    assert content["error"]["message"] and "Traceback" not in response.text and len(response.content) < 10_000


@pytest.mark.parametrize("path", GOOD)
def test_no_path_is_harmed_by_any_body(scripted_server: ServerProcess, path: str) -> None:
    headers = {"content-type": "application/json"}
    for name, body in hostile_bodies(GOOD[path]).items():
        response = scripted_server.http.post(path, content=body, headers=headers, timeout=30)
        assert response.status_code != 200, f"{name} was accepted"
        assert_refused(path, response)
    assert scripted_server.http.post(path, json=GOOD[path]).status_code == 200


@pytest.mark.parametrize("path", [*GOOD, "/v1/responses/resp_1/cancel", "/nowhere"])
def test_no_path_is_harmed_by_how_a_body_comes(scripted_server: ServerProcess, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    chunked = head + "transfer-encoding: chunked\r\n\r\n"
    for request in (
        chunked + "zz\r\n{}\r\n0\r\n\r\n",
        chunked + "5\r\n{}\r\n0\r\n\r\n",
        chunked + "ffffffffffffffffff\r\n{}",
        chunked + "-1\r\n{}\r\n",
        head + "content-length: -1\r\n\r\n{}",
        head + "content-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
        head + "content-length: 99999999999999999999999\r\n\r\n{}",
        head.replace("HTTP/1.1", "HTTP/9.9") + "\r\n",
    ):
        with scripted_server.connect() as connection:
            connection.sendall(request.encode())
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert not answer or 400 <= int(answer.split(b" ", 2)[1]) < 500
    for headers in ({"content-type": "text/plain"}, {"content-encoding": "zstd"}):
        response = scripted_server.http.post(path, content=b"{}", headers=headers)
        assert 400 <= response.status_code < 500
    assert_still_answers(scripted_server)


@pytest.mark.parametrize("path", GOOD)
def test_a_body_of_50_megabytes_is_refused(scripted_server: ServerProcess, path: str) -> None:
    response = scripted_server.http.post(
        path, content=b" " * 50_000_000, headers={"content-type": "application/json"}, timeout=30
    )
    assert response.status_code == 413
    assert_refused(path, response)


ODD_PATHS = (
    "/v1/models/%00",
    "/v1/models/%ff",
    "/v1/models/" + "x" * 20_000,
    "/v1/responses/..%2f..%2fetc",
    "/%e2%28%a1",
)


@pytest.mark.parametrize("path", ODD_PATHS, ids=lambda path: path[:30])
def test_odd_paths_are_not_found(scripted_server: ServerProcess, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        with scripted_server.connect() as connection:
            connection.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert int(answer.split(b" ", 2)[1]) in (404, 405)
    assert_still_answers(scripted_server)


def test_wrong_content_type_is_named(scripted_server: ServerProcess) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"content-type": content_type}
        response = scripted_server.http.post(CHAT, content=b"{}", headers=headers)
        assert response.status_code == 415
        assert content_type[:10] in error_of(response)["message"]


def test_compressed_body_is_refused(scripted_server: ServerProcess) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    response = scripted_server.http.post(CHAT, content=b"{}", headers=headers)
    assert response.status_code == 415
    assert "gzip" in error_of(response)["message"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_wrong_method_is_a_405(scripted_server: ServerProcess, method: str) -> None:
    response = scripted_server.http.request(method, CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method != "HEAD":
        assert error_of(response)["code"] == "method_not_allowed"


def test_unknown_path_is_a_404_in_the_nearest_envelope(scripted_server: ServerProcess) -> None:
    assert error_of(scripted_server.http.post("/v1/embeddings", json={}))["code"] == "not_found"
    anthropic = scripted_server.http.post("/v1/messages/batches", json={})
    assert anthropic.status_code == 404
    assert anthropic.json()["type"] == "error"
    assert anthropic.json()["error"]["type"] == "not_found_error"


def test_body_over_the_limit_is_a_413_in_every_envelope(start_server: StartServer) -> None:
    server = start_server("--max-body-bytes", "1000")
    for path in (CHAT, "/v1/responses", "/v1/messages"):
        response = server.http.post(path, json=chat_body("x" * 2000))
        assert response.status_code == 413
        assert "1000" in response.json()["error"]["message"]
    assert_still_answers(server)


def test_body_without_a_length_is_cut_off_at_the_limit(start_server: StartServer) -> None:
    server = start_server("--max-body-bytes", "100000")
    before = server.gauge("process_resident_memory_bytes")
    response = server.http.post(
        CHAT,
        content=(b" " * 65536 for _ in range(1000)),
        headers={"content-type": "application/json"},
        timeout=30,
    )
    assert response.status_code == 413
    assert server.gauge("process_resident_memory_bytes") - before < 20_000_000
    assert_still_answers(server)


def test_half_sent_body_leaves_nothing_behind(scripted_server: ServerProcess) -> None:
    lines = scripted_server.log.count("finish_reason=disconnected")
    body = json.dumps(chat_body("Hello")).encode()
    with scripted_server.connect() as connection:
        connection.sendall(raw_post(CHAT, body, content_length=len(body) + 500))
    eventually(lambda: scripted_server.log.count("finish_reason=disconnected") > lines)
    eventually(lambda: scripted_server.gauge("deepinfer_http_requests_in_flight") == 1)
    assert_still_answers(scripted_server)


def test_bytes_that_are_no_http_are_refused(scripted_server: ServerProcess) -> None:
    with scripted_server.connect() as connection:
        connection.sendall(b"\x16\x03\x01\x00\xff hello\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_http"
    assert_still_answers(scripted_server)


def test_a_head_without_end_is_cut_off(scripted_server: ServerProcess) -> None:
    with scripted_server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: ")
        for _ in range(3):
            connection.sendall(b"y" * 30_000)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 431")
    assert b"65536 bytes" in answer
    assert_still_answers(scripted_server)


def test_an_offer_to_upgrade_loses_no_body(scripted_server: ServerProcess) -> None:
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    response = scripted_server.http.post(CHAT, json=chat_body("Hello"), headers=offer)
    assert response.status_code == 200


def test_odd_headers_forge_no_log_line(scripted_server: ServerProcess) -> None:
    headers = {"x-request-id": 'a" status=200 model=forged'}
    response = scripted_server.http.post(CHAT, json={**chat_body("x"), "model": "a\nb c"}, headers=headers)
    assert response.status_code == 404
    assert response.headers["x-request-id"].startswith("req_")
    assert "forged" not in scripted_server.log
    assert "\nb c" not in scripted_server.log
