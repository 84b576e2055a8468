"""Sending: heads, slow clients, clients that leave."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from deepinfer.server.errors import ClientGoneError, HttpError
from deepinfer.server.stream import EventSender, run_while_connected, send_json
from deepinfer.server.waiting import WaitLimit


class Wire:
    """A `send` that keeps what was sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)


async def never_returns(message: Message) -> None:
    """A `send` to a client that does not read."""
    await asyncio.Event().wait()


async def never_disconnects() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def disconnects() -> Message:
    return {"type": "http.disconnect"}


async def test_the_head_goes_out_with_the_first_bytes() -> None:
    wire = Wire()
    sender = EventSender(wire, WaitLimit(30))
    await sender.push(b"")
    assert not sender.started and not wire.messages
    await sender.push(b"data: 1\n\n")
    await sender.close()
    head, first, last = wire.messages
    assert head["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in head["headers"]
    assert (first["body"], first["more_body"]) == (b"data: 1\n\n", True)
    assert (last["body"], last["more_body"]) == (b"", False)


async def test_a_client_that_does_not_read_counts_as_gone() -> None:
    with pytest.raises(ClientGoneError):
        await EventSender(never_returns, WaitLimit(0.01)).push(b"data: 1\n\n")


async def test_a_json_body_goes_out_whole() -> None:
    wire = Wire()
    await send_json(wire, b"{}", status=404, headers={"allow": "GET"})
    head, body = wire.messages
    assert head["status"] == 404
    assert head["headers"] == [(b"content-type", b"application/json"), (b"content-length", b"2"), (b"allow", b"GET")]
    assert body["body"] == b"{}"


async def test_work_runs_to_its_end_for_a_client_that_stays() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    await run_while_connected(never_disconnects, work())
    assert done.is_set()


async def test_work_is_cancelled_and_cleaned_up_for_a_client_that_leaves() -> None:
    cleaned = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    with pytest.raises(ClientGoneError):
        await run_while_connected(disconnects, work())
    assert cleaned.is_set()


async def test_a_failure_of_the_work_comes_through() -> None:
    async def work() -> None:
        raise HttpError(400, "code", "words")

    with pytest.raises(HttpError, match="words"):
        await run_while_connected(never_disconnects, work())
