"""One HTTP/1.1 connection to an upstream: a request at a time. Owns its socket.

Written for streams: what one read of the socket brings is handed over in one call, with no task in between. It follows
no redirects, keeps no cookies and asks for no compression.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol, cast

import httptools

_MAX_HEAD_BYTES: Final = 64 * 1024


class ConnectionFaultError(Exception):
    """A connection could not be opened, or broke, or what came over it is not HTTP.

    `unheard`: the peer may have closed the connection before the request came, which was sent over a used one.
    """

    def __init__(self, message: str, *, unheard: bool = False) -> None:
        super().__init__(message)
        self.unheard = unheard


class Receiver(Protocol):
    """Takes a response, in the event loop's thread, and must not raise."""

    def take_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers; the names in lower case."""

    def take_body(self, data: bytes) -> None:
        """Take what one read brought of the body."""

    def take_end(self, fault: ConnectionFaultError | None) -> None:
        """Take the end of the response, or what it broke off with. Nothing comes after it."""


class Connection(asyncio.Protocol):
    """One connection: a request at a time. Its client gets it back after each, or learns that it is gone."""

    def __init__(self, release: _Call, forget: _Call) -> None:
        self._release = release
        self._forget = forget
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._used = False
        self._reset()

    def _reset(self) -> None:
        # A fresh one for each response: it then knows nothing of what came before.
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._head_bytes = 0
        self._status = 0
        self._complete = False
        self._is_kept = False

    def send(self, data: bytes, receiver: Receiver) -> None:
        """Send a request."""
        self._receiver = receiver
        assert self._transport is not None
        self._transport.write(data)

    def pause(self) -> None:
        """Read no more until `resume`: the peer has to wait."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Break the connection off now; the receiver hears nothing more."""
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()

    def abort_request(self, receiver: Receiver) -> None:
        """Break the connection off if it still serves `receiver`."""
        if self._receiver is receiver:
            self.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods, but not the class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._receiver is None:
            # Nothing was asked for.
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, UnicodeDecodeError):
            self._fail("the answer is not HTTP")
            return
        if not self._status:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._fail(f"the head of the answer has more than {_MAX_HEAD_BYTES} bytes")
            return
        receiver = self._receiver
        if self._parts:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            receiver.take_body(body)
        # Taking it may have ended the request.
        if self._complete and self._receiver is receiver:
            self._finish()

    def eof_received(self) -> None:
        """Nothing to do: the connection closes, and `connection_lost` says what that means."""

    def connection_lost(self, exc: Exception | None) -> None:
        # The two know each other.
        del self._parser
        self._forget(self)
        if self._receiver is None:
            return
        if self._status and exc is None and not _has_length(self._headers):
            # A body that ends with its connection.
            receiver, self._receiver = self._receiver, None
            receiver.take_end(None)
            return
        unheard = self._used and not self._status and not self._head_bytes
        self._fail("the connection broke off" if exc is None else f"the connection broke: {reason_of(exc)}", unheard)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        # 1xx only announces the answer.
        if status >= 200 and self._receiver is not None:
            self._status = status
            self._receiver.take_head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True
            self._is_kept = self._parser.should_keep_alive()
        else:
            self._headers = {}

    def _finish(self) -> None:
        receiver, self._receiver = self._receiver, None
        is_kept = self._is_kept
        self._reset()
        self._used = True
        if is_kept:
            self.resume()
            self._release(self)
        else:
            self.abort()
        if receiver is not None:
            receiver.take_end(None)

    def _fail(self, message: str, unheard: bool = False) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.take_end(ConnectionFaultError(message, unheard=unheard))


class _Call(Protocol):
    def __call__(self, connection: Connection) -> None: ...


def _has_length(headers: Mapping[str, str]) -> bool:
    return "content-length" in headers or "transfer-encoding" in headers


def reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
