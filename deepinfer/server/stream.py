"""Sending an answer: server-sent events or one JSON body, to a client that may be slow or gone.

Back-pressure is the await on `send`: while a client does not read, nothing more is taken from the engine's queue.
Knows nothing of protocols.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import closing
from typing import Final

from starlette.types import Receive, Send

from deepinfer.server.errors import ClientGoneError
from deepinfer.server.waiting import WaitLimit

_JSON_HEADERS: Final = {"content-type": "application/json"}
_EVENT_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class EventSender:
    """Sends a stream of events; the head goes out with the first bytes, so that an early failure can still be a 4xx."""

    def __init__(self, send: Send, limit: WaitLimit) -> None:
        self._send = send
        self._limit = limit
        self.started = False

    async def push(self, data: bytes) -> None:
        """Send bytes now. Raises `ClientGoneError` if the client does not read for too long."""
        if data:
            await self._deliver(data, more=True)

    async def close(self) -> None:
        """End the stream."""
        await self._deliver(b"", more=False)

    async def _deliver(self, data: bytes, *, more: bool) -> None:
        try:
            with self._limit:
                if not self.started:
                    self.started = True
                    await self._send(_head(200, _EVENT_HEADERS))
                await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except (TimeoutError, OSError):
            raise ClientGoneError from None


async def send_events(send: Send, frames: AsyncIterator[bytes], *, idle_seconds: float) -> None:
    """Send `frames` as they come. What they raise before the first of them goes to the caller, who can still answer."""
    with closing(WaitLimit(idle_seconds)) as limit:
        sender = EventSender(send, limit)
        async for frame in frames:
            await sender.push(frame)
        await sender.close()


async def send_json(send: Send, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    """Send a whole JSON body."""
    length = {"content-length": str(len(body))}
    await send(_head(status, {**_JSON_HEADERS, **length, **(headers or {})}))
    await send({"type": "http.response.body", "body": body})


async def run_while_connected(receive: Receive, work: Coroutine[None, None, None]) -> None:
    """Run `work` to its end, or cancel it when the client goes away and raise `ClientGoneError`.

    The request's body must have been read: what `receive` brings from then on is the disconnect only.
    """
    # In this task, not in one of its own, which would cost the first token a turn of the event loop.
    watch = _Watch(receive)
    try:
        await work
    except asyncio.CancelledError:
        if watch.is_gone:
            raise ClientGoneError from None
        raise
    finally:
        watch.end()


class _Watch:
    """Cancels the task that made it when its client goes away."""

    def __init__(self, receive: Receive) -> None:
        self.is_gone = False
        self._receive = receive
        self._watched = asyncio.current_task()
        self._task = asyncio.create_task(self._run())

    def end(self) -> None:
        """Watch no more."""
        self._task.cancel()
        if self.is_gone and self._watched is not None:
            self._watched.uncancel()

    async def _run(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        if self._watched is not None:
            self._watched.cancel()


def _head(status: int, headers: Mapping[str, str]) -> dict[str, object]:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}
