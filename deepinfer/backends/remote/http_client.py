"""A lean HTTP/1.1 client for one upstream. Owns its connections, and keeps those alive that are between requests.

Written for streams: what one read of the socket brings is handed over in one call, with no task in between. It follows
no redirects, keeps no cookies and asks for no compression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import httptools

_MAX_HEAD_BYTES: Final = 64 * 1024
# Longest body that is read as a whole: lists of models, answers to probes, errors.
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_MAX_IDLE: Final = 256


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


@dataclass(frozen=True, slots=True)
class Response:
    """A response whose body is there as a whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an upstream listens. `prefix` comes before every path."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Origin:
        """Read an address as users write it, with or without `/v1`. Raises ValueError that says what is wrong."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"{parts.scheme!r} is no scheme for it; use http or https")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must hold no user name and no password; there is a setting for the key")
        if not parts.hostname:
            raise ValueError("it has no host")
        if parts.query or parts.fragment:
            raise ValueError("it must end with the path")
        tls = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, prefix)

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


class HttpClient:
    """Sends requests to one origin. `api_key` goes with each, and is shown nowhere."""

    def __init__(
        self, origin: Origin, *, api_key: str | None, tls: ssl.SSLContext | None, connect_seconds: float
    ) -> None:
        self.origin = origin
        self._tls = tls if origin.tls else None
        self._connect_seconds = connect_seconds
        authorization = "" if api_key is None else f"authorization: Bearer {api_key}\r\n"
        self._headers = f"host: {origin.authority}\r\nuser-agent: deepinfer\r\n{authorization}"
        # The one used last is the least likely to be closed by the peer meanwhile.
        self._idle: list[Connection] = []
        self._closed = False

    async def send(self, method: str, path: str, body: bytes | None, receiver: Receiver) -> Connection:
        """Send a request; its response goes to `receiver`. Raises `ConnectionFaultError` if there is no connection."""
        connection = self._idle.pop() if self._idle else await self._connect()
        length = "" if body is None else f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        head = f"{method} {self.origin.prefix}{path} HTTP/1.1\r\n{self._headers}{length}\r\n"
        connection.send(head.encode("latin-1") + (body or b""), receiver)
        return connection

    async def fetch(self, method: str, path: str, body: bytes | None = None, *, seconds: float) -> Response:
        """Send a request and return the whole response. Raises `ConnectionFaultError`, also after `seconds`."""
        whole = _Whole(asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(seconds):
                connection = await self.send(method, path, body, whole)
                whole.connection = connection
                try:
                    return await whole.result
                finally:
                    if not whole.ended:
                        connection.abort()
        except TimeoutError:
            raise ConnectionFaultError(f"no answer to {method} {path} in {seconds:g} s") from None

    def close(self) -> None:
        """Close the connections that are between requests, and let none be kept any more."""
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that are between requests."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    async def _connect(self) -> Connection:
        origin = self.origin
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._release, self._forget),
                    origin.host,
                    origin.port,
                    ssl=self._tls,
                    server_hostname=origin.host if self._tls is not None else None,
                )
        except TimeoutError:
            raise ConnectionFaultError(f"no connection in {self._connect_seconds:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFaultError(f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, UnicodeError) as error:
            raise ConnectionFaultError(f"no connection: {_reason(error)}") from None
        return connection

    def _release(self, connection: Connection) -> None:
        if self._closed or len(self._idle) >= _MAX_IDLE:
            connection.abort()
        else:
            self._idle.append(connection)

    def _forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


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
        self._forget(self)
        if self._receiver is None:
            return
        if self._status and exc is None and not _has_length(self._headers):
            # A body that ends with its connection.
            receiver, self._receiver = self._receiver, None
            receiver.take_end(None)
            return
        unheard = self._used and not self._status and not self._head_bytes
        self._fail("the connection broke off" if exc is None else f"the connection broke: {_reason(exc)}", unheard)

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
        else:
            self._headers = {}

    def _finish(self) -> None:
        receiver, self._receiver = self._receiver, None
        keep = self._parser.should_keep_alive()
        self._reset()
        self._used = True
        if keep:
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


class _Whole:
    """A `Receiver` that puts a body together."""

    def __init__(self, result: asyncio.Future[Response]) -> None:
        self.result = result
        self.connection: Connection | None = None
        self.ended = False
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()

    def take_head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers

    def take_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > _MAX_BODY_BYTES:
            if self.connection is not None:
                self.connection.abort()
            self.take_end(ConnectionFaultError(f"the answer has more than {_MAX_BODY_BYTES} bytes"))

    def take_end(self, fault: ConnectionFaultError | None) -> None:
        self.ended = True
        if self.result.done():
            return
        if fault is not None:
            self.result.set_exception(fault)
        else:
            self.result.set_result(Response(self._status, self._headers, bytes(self._body)))


def _has_length(headers: Mapping[str, str]) -> bool:
    return "content-length" in headers or "transfer-encoding" in headers


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
