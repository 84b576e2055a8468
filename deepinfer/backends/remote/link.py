"""The link to an upstream that is a server of this package: all requests over one connection. Owns its socket.

Opened by an HTTP/1.1 upgrade on the upstream's own port, with the same key as any request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol, cast
from urllib.parse import quote

from deepinfer.backends.remote.connection import ConnectionFaultError, reason_of
from deepinfer.backends.remote.http_client import HttpClient
from deepinfer.core import Request
from deepinfer.link import PATH, PROTOCOL
from deepinfer.link.frames import ANSWERING, Frame, FrameError, FrameReader, Kind, frame, head
from deepinfer.link.ids import ids_to_bytes
from deepinfer.link.messages import MAX_ANSWER_BYTES, Submit, pack

logger: Final = logging.getLogger(__name__)

_MAX_HEAD_BYTES: Final = 64 * 1024
_OPEN_SECONDS: Final = 5.0
# Upstreams show life every ten seconds.
_SILENT_SECONDS: Final = 60.0


class LinkUser(Protocol):
    """A request over a link. Called in the event loop's thread, and must not raise."""

    def take(self, one: Frame) -> None:
        """Take a frame of this request."""

    def take_loss(self, fault: ConnectionFaultError) -> None:
        """Take note that the link broke; nothing comes any more."""


async def open_link(client: HttpClient, model: str, on_loss: Callable[[], object]) -> Link | None:
    """Open a link; None if the upstream has none, or the way there passes no upgrades. Raises `ConnectionFaultError`.

    `on_loss` is called once, if the link closes by itself.
    """
    link = await client.connect(lambda: Link(on_loss))
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            is_open = await link.upgrade(client.upgrade_head(f"{PATH}?model={quote(model, safe='')}", PROTOCOL))
    except TimeoutError:
        is_open = False
    if not is_open:
        link.close()
        return None
    return link


class Link(asyncio.Protocol):
    """One link. What one read brings is handed to its requests with no task in between."""

    def __init__(self, on_loss: Callable[[], object]) -> None:
        self._on_loss = on_loss
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[bool] = self._loop.create_future()
        self._head = b""
        self._reader = FrameReader(ANSWERING, MAX_ANSWER_BYTES)
        self._users: dict[int, LinkUser] = {}
        self._numbers = count()
        self._is_taking = False
        self._is_full = False
        self._is_heard = False
        self._silence: asyncio.TimerHandle | None = None
        self._is_retired = False

    @property
    def is_open(self) -> bool:
        """Whether requests are taken at all."""
        return self._is_taking

    @property
    def is_ready(self) -> bool:
        """Whether a request may be sent now. Where not, HTTP is the way: it makes no other request wait."""
        return self._is_taking and not self._is_full

    async def upgrade(self, head: bytes) -> bool:
        """Ask for the link; False if it is refused."""
        self._transport.write(head)
        return await self._opened

    def submit(self, request: Request, user: LinkUser) -> int:
        """Send a request whose frames go to `user`. Returns its number."""
        number = next(self._numbers)
        submit = Submit(
            request_id=request.request_id,
            ids=ids_to_bytes(request.token_ids),
            sampling=request.sampling,
            grammar=request.grammar,
            thinking_limit=request.thinking_limit,
        )
        payload = pack(submit)
        # In one call of the system, and with no copy of the two for it.
        self._transport.writelines((head(Kind.SUBMIT, number, len(payload)), payload))
        self._users[number] = user
        return number

    def tell(self, kind: Kind, number: int) -> None:
        """Send what a request's user wants of it."""
        if number in self._users and not self._transport.is_closing():
            self._transport.write(frame(kind, number))

    def leave(self, number: int) -> None:
        """Hear no more of a request."""
        self._users.pop(number, None)
        if self._is_retired and not self._users:
            self._transport.abort()

    def retire(self) -> None:
        """Take no new requests, and close when the last has ended."""
        self._is_taking, self._is_retired = False, True
        if not self._users:
            self._transport.abort()

    def close(self) -> None:
        """Close now."""
        self._is_taking, self._is_retired = False, True
        self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods, but not the class.
        self._transport = cast(asyncio.Transport, transport)
        # Whole writes go out at once, not at the end of the event loop's turn.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if not self._opened.done():
            data = self._take_head(data)
        self._is_heard = True
        try:
            for one in self._reader.feed(data):
                self._take(one)
        except FrameError as error:
            self._lose(f"it sent {error}")

    def eof_received(self) -> None:
        """Nothing to do: the connection closes, and `connection_lost` says so to the requests."""

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_result(False)
        self._lose("the connection broke off" if exc is None else f"the connection broke: {reason_of(exc)}")

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def _take_head(self, data: bytes) -> bytes:
        """Read the answer to the offer; returns what comes behind it."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD_BYTES:
                self._opened.set_result(False)
            return b""
        self._is_taking = _is_switch(head)
        self._listen()
        self._opened.set_result(self._is_taking)
        return rest if self._is_taking else b""

    def _take(self, one: Frame) -> None:
        if one.kind == Kind.LEAVING:
            self._is_taking = False
            self._on_loss()
        elif one.kind != Kind.ALIVE and (user := self._users.get(one.number)) is not None:
            # Others have been left just now, and the upstream does not know yet.
            user.take(one)

    def _listen(self) -> None:
        """Give the link up if nothing came since the last time: whatever was on the way is lost, and nobody said so."""
        if self._silence is not None and not self._is_heard:
            self._lose(f"no sign of life came in {_SILENT_SECONDS:g} s")
            return
        self._is_heard = False
        self._silence = self._loop.call_later(_SILENT_SECONDS, self._listen)

    def _lose(self, message: str) -> None:
        if self._silence is not None:
            self._silence.cancel()
        was_taking, self._is_taking = self._is_taking, False
        self._transport.abort()
        users, self._users = self._users, {}
        for user in users.values():
            user.take_loss(ConnectionFaultError(message))
        if was_taking:
            logger.info("a link closed: %s", message)
            self._on_loss()


def _is_switch(head: bytes) -> bool:
    status, *lines = head.split(b"\r\n")
    named = [line.lower().partition(b":") for line in lines]
    offered = [value.strip() for name, _, value in named if name == b"upgrade"]
    return status.split(b" ")[1:2] == [b"101"] and offered == [PROTOCOL.encode()]
