"""Bodies from the wire to whoever reads them, so that a long one never holds the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from deepinfer.server.body import read_body
from deepinfer.server.services import Services

P = ParamSpec("P")
T = TypeVar("T")

# So much is encoded in one to two milliseconds. A thread costs half of one, and waits for its turn.
_THREAD_BYTES: Final = 128 * 1024


async def read_whole_body(scope: Scope, receive: Receive, services: Services, *, packed: bool = False) -> bytes:
    """Read the body of a request within the server's bounds; `packed`: it may be MessagePack. Raises `HttpError`."""
    config = services.config
    return await read_body(
        Headers(scope=scope),
        receive,
        max_bytes=config.max_body_bytes,
        idle_seconds=config.body_idle_seconds,
        packed=packed,
    )


async def off_the_loop(size: int | None, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Do `work` on `size` bytes: here if they are few, in a thread if they are many or if it is not known."""
    if size is not None and size < _THREAD_BYTES:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)
