"""A response that is made while nobody waits for it. The run owns its task and the events that were sent so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import msgspec

from deepinfer.server.answer import Answer
from deepinfer.server.responses.store.interface import StoredResponse

_END: Final = b"\n\n"
# Events that carry the whole response object, in whose status and `background` the run has a say.
_LIFECYCLE: Final = tuple(
    f"event: response.{name}".encode() for name in ("created", "in_progress", "completed", "incomplete", "failed")
)


class BackgroundRun:
    """One response in the making."""

    def __init__(self, answer: Answer, put: Callable[[StoredResponse], Awaitable[None]]) -> None:
        self.id = answer.work.answer_id
        self._answer = answer
        self._put = put
        keeping = answer.work.keeping
        assert keeping is not None
        self._input_items = keeping.input_items
        self._keeps_events = keeping.keep_events
        self._events: list[bytes] = []
        self._news = asyncio.Condition()
        self._begun = self._cancelled = self._ended = False
        self._at_end: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def keeps_events(self) -> bool:
        """Whether the stream may be read again."""
        return self._keeps_events

    @property
    def input_items(self) -> bytes:
        """The items it answers, as a JSON array."""
        return self._input_items

    def on_end(self, call: Callable[[], object]) -> None:
        """Call this when the response is finished and kept."""
        self._at_end.append(call)

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """End the response; what there is of it stays."""
        self._cancelled = True
        self._answer.cancel()

    async def wait(self) -> None:
        """Wait for the end."""
        async with self._news:
            await self._news.wait_for(lambda: self._ended)

    def placeholder(self) -> StoredResponse:
        """What stands for the response in the store until it is finished."""
        events = () if self._keeps_events else None
        return StoredResponse(
            id=self.id, body=self.snapshot(), input_items=self._input_items, events=events, unfinished=True
        )

    def snapshot(self) -> bytes:
        """The response object as it stands."""
        response: dict[str, Any] = msgspec.json.decode(self._answer.decoder.response())
        return msgspec.json.encode(self._marked(response))

    async def events(self, *, after: int, wait_seconds: float) -> AsyncGenerator[bytes]:
        """The stream from the event on that follows number `after`, to its end, with signs of life in between."""
        place = after + 1
        while place < len(self._events) or not self._ended:
            news = self._events[place:]
            place += len(news)
            if news:
                yield b"".join(news)
            elif not await self._wait_for_more(place, wait_seconds):
                yield self._answer.decoder.keep_alive()

    async def _wait_for_more(self, place: int, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds), self._news:
                return await self._news.wait_for(lambda: len(self._events) > place or self._ended)
        except TimeoutError:
            return False

    async def _run(self) -> None:
        try:
            try:
                async for data in self._answer.frames():
                    await self._take(data)
            except Exception as error:
                await self._take(self._answer.fail(error))
            events = tuple(self._events) if self._keeps_events else None
            stored = StoredResponse(id=self.id, body=self.snapshot(), input_items=self._input_items, events=events)
            await self._put(stored)
        finally:
            for call in self._at_end:
                call()
            async with self._news:
                self._ended = True
                self._news.notify_all()

    async def _take(self, data: bytes) -> None:
        self._begun = True
        if not self._keeps_events:
            return
        frames = [frame + _END for frame in data.split(_END) if frame and not frame.startswith(b":")]
        async with self._news:
            self._events += [self._edited(frame) for frame in frames]
            self._news.notify_all()

    def _edited(self, frame: bytes) -> bytes:
        if not frame.startswith(_LIFECYCLE):
            return frame
        head, _, data = frame.partition(b"data: ")
        event: dict[str, Any] = msgspec.json.decode(data)
        event["response"] = self._marked(event["response"])
        return head + b"data: " + msgspec.json.encode(event) + _END

    def _marked(self, response: dict[str, Any]) -> dict[str, Any]:
        response["background"] = True
        if response["status"] == "in_progress" and not self._begun:
            response["status"] = "queued"
        if response["status"] == "failed" and self._cancelled:
            response["status"], response["error"] = "cancelled", None
        return response
