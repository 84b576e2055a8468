"""uvicorn's HTTP parser with bounds on a request's head. Knows nothing of requests' meaning.

Three gaps are closed: a head may neither grow nor dawdle without end; an offer to upgrade (Java's client offers HTTP/2
on every plain connection) is ignored as HTTP allows, where the parser would lose the body; and bytes that are no
HTTP get a JSON answer too. And the head of an answer goes out in one packet with the first bytes of its body.
An offer of our own protocol reaches the handler of its request, who may take the connection over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, MutableSet
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

import deepseek_recipe as recipe
from deepinfer.link import PROTOCOL
from deepinfer.server.errors import ClientGoneError

MAX_HEAD_BYTES: Final = 64 * 1024
_HEAD_SECONDS: Final = 30.0
_READ_AHEAD_BYTES: Final = 256 * 1024
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_UPGRADE_LINE: Final = re.compile(rb"(?i)\r\nupgrade[ \t]*:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|$)")
_SWITCH: Final = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {PROTOCOL}\r\n\r\n".encode()
# Name of the extension by which a handler finds `BoundedHttpProtocol.switch`, where that was offered.
UPGRADE: Final = "deepinfer.upgrade"

# Makes what goes on with a connection, from those that are told, and waited for, when the server ends.
Succession = Callable[[MutableSet[Any]], asyncio.Protocol]


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. Costs one search per request beyond uvicorn's own work."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = 0
        self._in_head = True
        self._is_offered = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the connection."""
        if self._in_head:
            if self._head_timer is None:
                self._start_head_timer()
            end = data.find(b"\r\n\r\n")
            end = len(data) if end < 0 else end
            self._head_bytes += end
            if self._head_bytes > MAX_HEAD_BYTES:
                limit = f"the request's line and headers are longer than {MAX_HEAD_BYTES} bytes"
                self._refuse(431, "request_headers_too_large", limit)
                return
            if offer := _UPGRADE_LINE.search(data, 0, end):
                self._is_offered = offer[1].lower() == PROTOCOL.encode()
                data = _UPGRADE_LINE.sub(b"", data[:end]) + data[end:]
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_head_timer()
        super().on_headers_complete()
        if self._is_offered:
            self._is_offered = False
            self.scope["extensions"] = {UPGRADE: {"switch": self.switch}}
        # Nothing of the answer is sent before its task runs.
        self.cycle.transport = cast(asyncio.Transport, _AnswerTransport(self.transport, self.loop))

    def on_body(self, body: bytes) -> None:
        """Take a part of a body. Only long ones are paused, as each pause and each return cost a call of the system."""
        if not self.cycle.response_complete:
            self.cycle.body += body
            if len(self.cycle.body) > _READ_AHEAD_BYTES:
                self.flow.pause_reading()
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End a request: the next bytes are the head of another."""
        self._in_head = True
        super().on_message_complete()

    def switch(self, succession: Succession) -> None:
        """Leave the connection to another protocol, which must have `shutdown` as this one has.

        Called in place of an answer. Raises `ClientGoneError` if the connection is lost, or its client did not wait.
        """
        if self.transport.is_closing() or self.pipeline:
            raise ClientGoneError
        self._stop_head_timer()
        self._unset_keepalive_if_required()
        self.cycle.response_started = self.cycle.response_complete = True
        protocol = succession(self.connections)
        self.connections.discard(self)
        cast(set[Any], self.connections).add(protocol)
        self.transport.write(_SWITCH)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP."""
        self._refuse(400, "invalid_http", "the bytes received are not a valid HTTP/1.1 request")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            # Otherwise an answer is on its way, and these bytes came behind its request.
            body = recipe.error_body("chat_completions", status=status, code=code, message=message)
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._head_took_too_long)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_took_too_long(self) -> None:
        self._refuse(408, "request_timeout", f"no whole request head arrived within {_HEAD_SECONDS:g} seconds")


class _AnswerTransport:
    """What one answer is written to. Holds its head back until more is written, or the event loop's next turn.

    Two writes would be two reads for the client, the first of which brings nothing that it waits for.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._is_begun = False
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write bytes of the answer."""
        if not self._is_begun and data != _CONTINUE:
            self._is_begun = True
            self._head = data
            self._loop.call_soon(self._flush)
            return
        head, self._head = self._head, b""
        self._transport.write(head + data)

    def close(self) -> None:
        """Close the connection when all is sent."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
