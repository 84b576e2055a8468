"""What goes over one connection, write by write, with a transport that keeps it all."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from deepinfer.server.http_protocol import BoundedHttpProtocol

HEAD = {"type": "http.response.start", "status": 200, "headers": []}


class Wire:
    """A transport that keeps what is written, and knows whether it is read from."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_read = True
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


async def exchange(application: Any, *parts: bytes, wire: Wire | None = None) -> list[bytes]:
    """What is written when these parts of a request have come, each after the other was dealt with."""
    wire = wire or Wire()
    settings = uvicorn.Config(application, log_config=None, access_log=False)
    protocol = BoundedHttpProtocol(config=settings, server_state=ServerState(), app_state={})
    protocol.connection_made(cast(asyncio.Transport, wire))
    for part in parts:
        protocol.data_received(part)
        for _ in range(10):
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    return wire.written


def request(method: str = "POST", *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} / HTTP/1.1", "host: a", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def two_events(scope: Scope, receive: Receive, send: Send) -> None:
    await send(HEAD)
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"two"})


async def test_the_head_goes_out_with_the_first_event() -> None:
    first, second = await exchange(two_events, request())
    assert first.startswith(b"HTTP/1.1 200 OK\r\n") and first.endswith(b"\r\n\r\n3\r\none\r\n")
    assert second == b"3\r\ntwo\r\n0\r\n\r\n"


async def test_a_head_alone_does_not_wait_for_more() -> None:
    async def dawdle(scope: Scope, receive: Receive, send: Send) -> None:
        await send(HEAD)
        await asyncio.Event().wait()

    (head,) = await exchange(dawdle, request())
    assert head.endswith(b"\r\n\r\n")


async def test_an_answer_without_a_body_is_sent() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send(HEAD | {"status": 204})
        await send({"type": "http.response.body", "body": b""})

    for written in (await exchange(answer, request("HEAD")), await exchange(answer, request())):
        assert b"".join(written).startswith(b"HTTP/1.1 204 No Content\r\n")


async def test_the_head_of_an_answer_that_breaks_off_is_sent() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await send(HEAD)

    wire = Wire()
    (head,) = await exchange(fail, request(), wire=wire)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and wire.is_closed


async def test_a_client_that_asks_first_is_told_to_go_on_at_once() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        await send(HEAD)
        await send({"type": "http.response.body", "body": message["body"]})

    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
    go_on, answer = await exchange(read, head, b"hi")
    assert go_on == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b"hi" in answer


async def test_answers_to_requests_sent_together_come_in_order() -> None:
    written = b"".join(await exchange(two_events, request() + request() + request()))
    assert written.count(b"HTTP/1.1 200 OK\r\n") == 3
    for answer in written.split(b"HTTP/1.1 200 OK\r\n")[1:]:
        assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


@pytest.mark.parametrize("offer", ["upgrade: h2c", "Upgrade : h2c"])
async def test_an_offer_to_upgrade_is_ignored(offer: str) -> None:
    seen: list[tuple[list[tuple[bytes, bytes]], bytes]] = []

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["headers"], (await receive())["body"]))
        await two_events(scope, receive, send)

    body = b"\r\nupgrade: is a word of the body\r\n\r\n"
    await exchange(read, request("POST", offer, "connection: upgrade", body=body))
    (headers, read_body), *_ = seen
    assert read_body == body and b"upgrade" not in dict(headers)


@pytest.mark.parametrize(("size", "is_read"), [(100_000, True), (1_000_000, False)])
async def test_a_body_that_nobody_reads_is_paused_when_it_is_long(size: int, is_read: bool) -> None:
    async def ignore(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    wire = Wire()
    await exchange(ignore, request(body=bytes(size)), wire=wire)
    assert wire.is_read is is_read
