"""The engine requests behind one HTTP request: outputs of one as they come, of several through one bounded queue.

Owns those engine requests: leaving the `async with` block ends them all and frees their memory. Knows only ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

from deepinfer.core import Engine, OutputStream, Request, StepOutput
from deepinfer.errors import EngineError
from deepinfer.server.exchange import Exchange
from deepinfer.server.waiting import WaitLimit

ChoiceOutput: TypeAlias = tuple[int, StepOutput]

# Outputs of one choice that may wait for a slow reader; beyond it, its stream is not read any more.
_QUEUE_SIZE: Final = 16


class Generation:
    """Outputs of several requests in the order they come; a request's place in `requests` is its choice number."""

    def __init__(self, engine: Engine, requests: Sequence[Request]) -> None:
        self._engine = engine
        self._requests = requests
        self._streams: list[OutputStream] = []
        self._queue: asyncio.Queue[ChoiceOutput | Exception] = asyncio.Queue(_QUEUE_SIZE)
        self._tasks: list[asyncio.Task[None]] = []
        self.cancelled = False

    async def submit(self) -> None:
        """Submit every request, ahead of the block. Raises `EngineError` if one cannot run; then none does."""
        try:
            for request in self._requests:
                self._streams.append(self._engine.submit(request))
        except BaseException:
            await self._close()
            raise

    async def __aenter__(self) -> Self:
        """Submit every request that is not, like `submit`."""
        if not self._streams:
            await self.submit()
        if len(self._streams) > 1:
            self._tasks = [asyncio.create_task(self._read(*numbered)) for numbered in enumerate(self._streams)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End what still runs."""
        for request in self._requests:
            self._engine.abort(request.request_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A cancelled task keeps the way to where it was, and so this and the prompt.
        self._tasks.clear()
        await self._close()

    def abort(self) -> None:
        """End every request from outside; the outputs then end with `FinishReason.ABORT`."""
        for request in self._requests:
            self._engine.abort(request.request_id)

    def cancel(self) -> None:
        """End every request by the client's wish."""
        self.cancelled = True
        self.abort()

    def abort_choice(self, choice: int) -> None:
        """End one request whose answer is complete."""
        self._engine.abort(self._requests[choice].request_id)

    async def next_outputs(self, limit: WaitLimit) -> list[ChoiceOutput]:
        """Wait for an output and return it with all that came meanwhile; empty if none came within the limit.

        Raises what the engine raised.
        """
        try:
            with limit:
                if not self._tasks:
                    return [(0, await anext(self._streams[0]))]
                items = [await self._queue.get()]
        except TimeoutError:
            return []
        while not self._queue.empty():
            items.append(self._queue.get_nowait())
        return [_output_of(item) for item in items]

    async def _read(self, choice: int, stream: OutputStream) -> None:
        try:
            async for output in stream:
                await self._queue.put((choice, output))
        except Exception as error:
            await self._queue.put(error)

    async def _close(self) -> None:
        for stream in self._streams:
            await stream.aclose()
        self._streams.clear()


def _output_of(item: ChoiceOutput | Exception) -> ChoiceOutput:
    if isinstance(item, Exception):
        raise item
    return item


class Live(Protocol):
    """What is in flight, and can be ended."""

    def abort(self) -> None:
        """End it from outside."""

    def cancel(self) -> None:
        """End it by its client's wish."""


class LiveGenerations:
    """The generations in flight of one server, so that clients can cancel theirs, and a shutdown all."""

    def __init__(self) -> None:
        self._live: dict[Live, Exchange] = {}
        self._closed = False
        # Whether the server is about to end, though what runs may still finish.
        self.draining = False

    @contextmanager
    def tracking(self, generation: Live, exchange: Exchange) -> Iterator[None]:
        """Take note of a generation while the block runs. Raises `EngineError` once all were told to end."""
        self.add(generation, exchange)
        try:
            yield
        finally:
            self.discard(generation)

    def add(self, generation: Live, exchange: Exchange) -> None:
        """Take note of a generation. Raises `EngineError` once all were told to end."""
        if self._closed:
            raise EngineError("the server is shutting down; send the request again", code="server_shutting_down")
        self._live[generation] = exchange

    def discard(self, generation: Live) -> None:
        """Forget a generation that has ended, or was never added."""
        self._live.pop(generation, None)

    def cancel(self, client: str, request_id: str) -> int:
        """End a client's generations of this request id; returns how many there were."""
        found = [
            generation
            for generation, exchange in self._live.items()
            if (exchange.client, exchange.request_id) == (client, request_id)
        ]
        for generation in found:
            generation.cancel()
        return len(found)

    def abort_all(self) -> int:
        """End all of them, and let none begin any more; returns how many there were."""
        self._closed = True
        for generation in list(self._live):
            generation.abort()
        return len(self._live)
