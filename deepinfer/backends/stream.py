"""The consumer's end of one request to an engine. Owns nothing but its place in the queue it reads.

The backend puts `StepOutput`s, or one `EngineError`, into the queue from the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from deepinfer.core import StepOutput
from deepinfer.errors import EngineError

OutputQueue: TypeAlias = asyncio.Queue[StepOutput | EngineError]


class OutputSource(Protocol):
    """What hands over the outputs of one request."""

    async def get(self) -> StepOutput | EngineError:
        """Wait for the next output, or the error that ends the request. Loses nothing if cancelled."""


class QueueStream:
    """`OutputStream` over a queue. `abandon` is called at most once, if the consumer leaves before the end.

    `abandon` must be safe to call from any thread, as a dropped stream may be collected anywhere. A cancelled
    `__anext__` loses nothing and does not abort, so that a consumer may wait with a timeout.
    """

    def __init__(self, queue: OutputSource, *, abandon: Callable[[], object]) -> None:
        self._queue = queue
        self._abandon = abandon
        self._ended = False

    def __aiter__(self) -> QueueStream:
        return self

    async def __anext__(self) -> StepOutput:
        if self._ended:
            raise StopAsyncIteration
        item = await self._queue.get()
        if isinstance(item, EngineError):
            self._ended = True
            raise item
        self._ended = item.finish_reason is not None
        return item

    async def aclose(self) -> None:
        """Abort the request if it has not ended."""
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self._ended:
            self._ended = True
            self._abandon()
