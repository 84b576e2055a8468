"""A streaming client that costs little: it notes when content arrives and keeps the bytes for later.

A connection carries one request at a time and is used again. Times are those of `time.perf_counter`, in seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from math import inf
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from deepinfer.bench.answers import CALL, CONTENT, PATHS, Answer, Protocol, fold

_READ_LIMIT: Final = 300.0


@dataclass(slots=True)
class Reply:
    """One answer as it arrived.

    `marks` are its packets: when each came, and how many events of reasoning or text it brought; 0 if only ones of a
    call. `broken` is an answer whose connection ended before it, by whichever side.
    """

    protocol: Protocol
    sent: float = 0.0
    ended: float = 0.0
    status: int = 0
    marks: list[tuple[float, int]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    broken: bool = False

    @property
    def first(self) -> float | None:
        """When the first content came."""
        return self.marks[0][0] if self.marks else None

    def gaps(self, start: float, end: float) -> Iterator[float]:
        """Seconds between events of reasoning or text that came from `start` to `end`; those of one packet are 0 apart.

        None is taken over an event of a call: the tokens of its markup are silent.
        """
        last: float | None = None
        for at, count in self.marks:
            if start <= at < end and count:
                if last is not None:
                    yield at - last
                yield from repeat(0.0, count - 1)
            last = at if count else None

    def answer(self) -> Answer:
        """What the stream said."""
        return fold(self.protocol, bytes(self.body))


class Client:
    """Owns connections to one server, opened as they are needed. `url` is http://HOST:PORT. Raises `ValueError`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None or parts.path not in ("", "/"):
            raise ValueError(f"{url!r} is no address of the form http://HOST:PORT")
        self._host, self._port = parts.hostname, parts.port or 80
        self._idle: list[_Connection] = []

    async def ask(self, protocol: Protocol, body: dict[str, Any] | bytes, *, leave_after: int | None = None) -> Reply:
        """Send a request and read its answer; after `leave_after` events with content, hang up instead.

        A request that finds its idle connection closed by the server is sent once more. Raises `OSError` if there is
        no connection to be had, and `TimeoutError` after five minutes without an end.
        """
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        while True:
            connection, used = await self._connection()
            reply = Reply(protocol)
            async with asyncio.timeout(_READ_LIMIT):
                await connection.exchange(self._head(protocol, len(data)) + data, reply, leave_after)
            if connection.is_open:
                self._idle.append(connection)
            if not (used and reply.broken and reply.status == 0):
                return reply

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _connection(self) -> tuple[_Connection, bool]:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection, True
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, self._host, self._port)
        return connection, False

    def _head(self, protocol: Protocol, length: int) -> bytes:
        return (
            f"POST {PATHS[protocol]} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\ncontent-type: application/json\r\n"
            f"content-length: {length}\r\nanthropic-version: 2023-06-01\r\n\r\n"
        ).encode()


class _Connection(asyncio.Protocol):
    """A connection, and the reading of the answer that is on its way."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Hang up."""
        self.is_open = False
        assert self._transport is not None
        self._transport.abort()

    async def exchange(self, request: bytes, reply: Reply, leave_after: int | None) -> None:
        """Send `request` and fill `reply`."""
        assert self._transport is not None
        self._reply = reply
        self._left = inf if leave_after is None else leave_after
        self._content, self._call = CONTENT[reply.protocol], CALL[reply.protocol]
        self._parser = httptools.HttpResponseParser(self)
        self._unread = b""
        self._waiter = asyncio.get_running_loop().create_future()
        reply.sent = time.perf_counter()
        self._transport.write(request)
        try:
            await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer, if one is on its way."""
        self.is_open = False
        self._end(broken=True)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._waiter is None:
            self.close()
            return
        self._now = time.perf_counter()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()
            self._end(broken=True)

    def on_headers_complete(self) -> None:
        """Note the status."""
        self._reply.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Count the events with content that end in `data`."""
        self._reply.body += data
        if self._unread:
            data = self._unread + data
        end = len(data) if data.endswith(b"\n\n") else data.rfind(b"\n\n") + 2
        events, self._unread = data[:end], data[end:]
        count = len(self._content.findall(events))
        if count or self._call.search(events):
            self._reply.marks.append((self._now, count))
            self._left -= count
            if self._left <= 0:
                self.close()
                self._end(broken=True)

    def on_message_complete(self) -> None:
        """End the answer."""
        if not self._parser.should_keep_alive():
            self.close()
        self._end(broken=False)

    def _end(self, *, broken: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._reply.ended = time.perf_counter()
            self._reply.broken = broken
            self._waiter.set_result(None)
