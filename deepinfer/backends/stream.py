"""The consumer's end of one request to an engine. Owns nothing but its place at the outbox it reads."""

from __future__ import annotations

from collections.abc import Callable

from deepinfer.backends.outbox import Outbox
from deepinfer.core import StepOutput
from deepinfer.errors import EngineError


class OutboxStream:
    """`OutputStream` over an outbox. `abandon` is called at most once, if the consumer leaves before the end.

    `abandon` must be safe to call from any thread, as a dropped stream may be collected anywhere. A cancelled
    `__anext__` loses nothing and does not abort, so that a consumer may wait with a timeout.
    """

    def __init__(self, outbox: Outbox, *, abandon: Callable[[], object]) -> None:
        self._outbox = outbox
        self._abandon = abandon
        self._ended = False

    def __aiter__(self) -> OutboxStream:
        return self

    async def __anext__(self) -> StepOutput:
        if self._ended:
            raise StopAsyncIteration
        item = await self._outbox.get()
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
