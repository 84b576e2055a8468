"""A lean HTTP/1.1 client for one upstream. Owns its connections, and keeps those alive that are between requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

from deepinfer.backends.remote.connection import Connection, ConnectionFaultError, Receiver, reason_of

# Longest body that is read as a whole: lists of models, answers to probes, errors.
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_MAX_IDLE: Final = 256

P = TypeVar("P", bound=asyncio.Protocol)


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

    async def send(
        self, method: str, path: str, body: bytes | None, receiver: Receiver, *, media_type: str = "application/json"
    ) -> Connection:
        """Send a request; its response goes to `receiver`. Raises `ConnectionFaultError` if there is no connection."""
        self._closed = False
        connection = (
            self._idle.pop() if self._idle else await self.connect(lambda: Connection(self._release, self._forget))
        )
        connection.send(self._head(method, path, body, media_type) + (body or b""), receiver)
        return connection

    def send_now(self, path: str, body: bytes, receiver: Receiver, *, media_type: str) -> Connection | None:
        """POST like `send`, if a connection is open and idle; None if there is none."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        connection.send(self._head("POST", path, body, media_type) + body, receiver)
        return connection

    async def fetch(self, method: str, path: str, body: bytes | None = None, *, seconds: float) -> Response:
        """Send a request and return the whole response. Raises `ConnectionFaultError`, also after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                try:
                    return await self._fetch(method, path, body)
                except ConnectionFaultError as error:
                    if not error.unheard:
                        raise
                    # As for a request: the peer is well, and other connections may be as old.
                    self.close_idle()
                    return await self._fetch(method, path, body)
        except TimeoutError:
            raise ConnectionFaultError(f"no answer to {method} {path} in {seconds:g} s") from None

    def close(self) -> None:
        """Close the connections that are between requests, and keep none until something is sent again."""
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that are between requests."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    async def connect(self, factory: Callable[[], P]) -> P:
        """Open a connection for a protocol of one's own. Raises `ConnectionFaultError`."""
        origin = self.origin
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    factory,
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
            raise ConnectionFaultError(f"no connection: {reason_of(error)}") from None
        return connection

    def upgrade_head(self, path: str, protocol: str) -> bytes:
        """A request that offers to go on in another protocol."""
        return self._lines("GET", path, f"connection: upgrade\r\nupgrade: {protocol}\r\n")

    async def _fetch(self, method: str, path: str, body: bytes | None) -> Response:
        whole = _Whole(asyncio.get_running_loop().create_future())
        whole.connection = await self.send(method, path, body, whole)
        try:
            return await whole.result
        finally:
            if not whole.ended:
                whole.connection.abort()

    def _head(self, method: str, path: str, body: bytes | None, media_type: str) -> bytes:
        length = "" if body is None else f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
        return self._lines(method, path, length)

    def _lines(self, method: str, path: str, headers: str) -> bytes:
        return f"{method} {self.origin.prefix}{path} HTTP/1.1\r\n{self._headers}{headers}\r\n".encode("latin-1")

    def _release(self, connection: Connection) -> None:
        if self._closed or len(self._idle) >= _MAX_IDLE:
            connection.abort()
        else:
            self._idle.append(connection)

    def _forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


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
