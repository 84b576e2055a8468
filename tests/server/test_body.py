"""Reading bodies within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive

from deepinfer.server.body import read_body
from deepinfer.server.errors import ClientGoneError, HttpError


def parts(*bodies: bytes) -> list[Message]:
    """ASGI messages of a body that arrives in pieces."""
    last = len(bodies) - 1
    return [{"type": "http.request", "body": body, "more_body": place < last} for place, body in enumerate(bodies)]


def receiver(messages: Sequence[Message]) -> Receive:
    """A `receive` that brings these messages, and then nothing any more."""
    waiting = list(messages)

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    return receive


async def read(
    messages: Sequence[Message], headers: dict[str, str] | None = None, *, idle: float = 30, packed: bool = False
) -> bytes:
    return await read_body(Headers(headers or {}), receiver(messages), max_bytes=10, idle_seconds=idle, packed=packed)


async def test_pieces_are_joined_up_to_the_limit() -> None:
    assert await read(parts(b"01234", b"", b"56789")) == b"0123456789"


async def test_one_byte_more_is_a_413_before_the_rest_arrives() -> None:
    endless: list[Message] = [{"type": "http.request", "body": b"0123", "more_body": True}] * 3
    with pytest.raises(HttpError, match="more than 10 bytes; the limit is 10 bytes") as caught:
        await read(endless)
    assert caught.value.status_code == 413


async def test_a_declared_length_over_the_limit_is_a_413_before_anything_arrives() -> None:
    with pytest.raises(HttpError, match="11 bytes") as caught:
        await read([], {"content-length": "11"})
    assert caught.value.status_code == 413


async def test_a_client_that_leaves_is_no_error_of_ours() -> None:
    with pytest.raises(ClientGoneError):
        await read([{"type": "http.request", "body": b"0", "more_body": True}, {"type": "http.disconnect"}])


async def test_a_body_that_stops_arriving_is_a_408() -> None:
    with pytest.raises(HttpError) as caught:
        await read([{"type": "http.request", "body": b"0", "more_body": True}], idle=0.01)
    assert caught.value.status_code == 408


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json"])
async def test_json_in_any_spelling_is_accepted(content_type: str) -> None:
    assert await read(parts(b"{}"), {"content-type": content_type}) == b"{}"


async def test_messagepack_is_accepted_where_it_is_read() -> None:
    headers = {"content-type": "application/msgpack"}
    assert await read(parts(b"\x80"), headers, packed=True) == b"\x80"
    assert await read(parts(b"{}"), packed=True) == b"{}"
    with pytest.raises(HttpError) as caught:
        await read(parts(b"\x80"), headers)
    assert caught.value.status_code == 415


@pytest.mark.parametrize("headers", [{"content-type": "text/plain"}, {"content-encoding": "br"}])
async def test_anything_else_is_a_415(headers: dict[str, str]) -> None:
    with pytest.raises(HttpError) as caught:
        await read(parts(b"{}"), headers)
    assert caught.value.status_code == 415
