"""Reading a request's body within bounds of size and time. Knows nothing of what the body says."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from deepinfer.server.errors import ClientGoneError, HttpError


async def read_body(
    headers: Headers, receive: Receive, *, max_bytes: int, idle_seconds: float, packed: bool = False
) -> bytes:
    """Read the whole body, JSON or, with `packed`, also MessagePack.

    Raises a 413 as soon as it is too long, a 408 when it stops arriving, and a 415 for other types.
    """
    _check_content_type(headers, packed=packed)
    _check_declared_length(headers, max_bytes)
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await _receive(receive, idle_seconds)
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_long(max_bytes, f"more than {max_bytes}")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def _receive(receive: Receive, idle_seconds: float) -> Message:
    try:
        async with asyncio.timeout(idle_seconds):
            return await receive()
    except TimeoutError:
        message = f"no more of the request body arrived for {idle_seconds:g} seconds; send it whole"
        raise HttpError(408, "request_timeout", message, headers={"connection": "close"}) from None


def _check_content_type(headers: Headers, *, packed: bool) -> None:
    content_type = headers.get("content-type", "application/json")
    media_type = content_type.partition(";")[0].strip().lower()
    is_packed = packed and media_type == "application/msgpack"
    if media_type != "application/json" and not media_type.endswith("+json") and not is_packed:
        message = f"content-type is {content_type[:100]!r}; send 'content-type: application/json'"
        raise HttpError(415, "unsupported_media_type", message, param="content-type")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        message = f"content-encoding is {encoding[:100]!r}; send the body uncompressed"
        raise HttpError(415, "unsupported_media_type", message, param="content-encoding")


def _check_declared_length(headers: Headers, max_bytes: int) -> None:
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_long(max_bytes, declared)


def _too_long(max_bytes: int, given: str) -> HttpError:
    return HttpError(413, "request_too_large", f"the request body has {given} bytes; the limit is {max_bytes} bytes")
