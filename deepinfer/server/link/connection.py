"""One gateway's link: frames in, frames out. Owns the connection and the answers that are on their way over it.

What the answers write in one turn of the event loop goes out in one write, or two: the first token of an answer waits
for no others. While the gateway does not read, nothing more is taken from the engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableSet
from typing import Any, Final, cast
from uuid import uuid4

from deepinfer.core import StepOutput
from deepinfer.link import PATH
from deepinfer.link.frames import ASKING, Frame, FrameError, FrameReader, Kind, frame
from deepinfer.link.messages import Failed, MessageError, Submit, pack, packed_outputs, read_submit
from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import Exchange, choose_request_id
from deepinfer.server.link.answer import LinkAnswer
from deepinfer.server.services import Services

logger: Final = logging.getLogger(__name__)


class LinkConnection(asyncio.Protocol):
    """A link to a gateway. `connections` are those that the server waits for at its end.

    `identify` names the gateway by its key, for each request, and raises an `HttpError` if that is not valid any more.
    """

    def __init__(
        self, services: Services, identify: Callable[[], str], model: str, connections: MutableSet[Any]
    ) -> None:
        self.is_full = False
        self._services = services
        self._identify = identify
        self._model = model
        self._name = f"link-{uuid4().hex}"
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(ASKING, services.config.max_body_bytes)
        self._answers: dict[int, LinkAnswer] = {}
        self._unsent: list[bytes] = []
        self._is_flush_due = False
        self._has_hurried = False
        self._is_leaving = False
        self._is_silent = False
        self._life_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def shutdown(self) -> None:
        """Take no new requests, and close once the last answer has ended."""
        self._is_leaving = True
        self._send(frame(Kind.LEAVING, 0))
        self._close_if_done()

    def send_output(self, number: int, output: StepOutput, *, is_first: bool) -> None:
        """Send an output of an answer."""
        for payload in packed_outputs(output):
            self._send(frame(Kind.OUTPUT, number, payload))
        if is_first and not self._has_hurried:
            # Once a turn: where many answers begin in one, they go together.
            self._has_hurried = True
            self._write()

    def send_failure(self, number: int, failed: Failed) -> None:
        """Say what ended a request."""
        self._send(frame(Kind.FAILED, number, pack(failed)))

    def forget(self, number: int) -> None:
        """Take note that an answer has ended."""
        del self._answers[number]
        self._close_if_done()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods, but not the class.
        self._transport = cast(asyncio.Transport, transport)
        # Whole writes go out at once, not at the end of the event loop's turn.
        self._transport.set_write_buffer_limits(high=0)
        self._show_life()
        if self._is_leaving:
            self._close_if_done()

    def data_received(self, data: bytes) -> None:
        try:
            for one in self._reader.feed(data):
                self._take(one)
        except FrameError as error:
            logger.warning("a link is closed: %s", error)
            self._transport.abort()
            return
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._reader.is_within_frame:
            self._idle_timer = self._loop.call_later(self._services.config.body_idle_seconds, self._transport.abort)

    def eof_received(self) -> None:
        """Nothing to do: the connection closes, and `connection_lost` ends the answers."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for timer in (self._idle_timer, self._unread_timer, self._life_timer):
            if timer is not None:
                timer.cancel()
        for answer in self._answers.values():
            answer.leave()

    def pause_writing(self) -> None:
        self.is_full = True
        self._unread_timer = self._loop.call_later(self._services.config.send_idle_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        self.is_full = False
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        for answer in self._answers.values():
            answer.go_on()

    def _take(self, one: Frame) -> None:
        if one.kind == Kind.SUBMIT:
            self._submit(one)
        elif (answer := self._answers.get(one.number)) is None:
            # It has ended, and the gateway did not know yet.
            return
        elif one.kind == Kind.ABORT:
            answer.leave()
        elif one.kind == Kind.PAUSE:
            answer.pause()
        else:
            answer.resume()

    def _submit(self, one: Frame) -> None:
        if one.number in self._answers:
            raise FrameError(f"a second request with the number {one.number}")
        try:
            submit = self._read(one.payload)
        except HttpError as error:
            self._new_answer(one.number, None).refuse(error)
            return
        answer = self._new_answer(one.number, submit.request_id)
        try:
            if self._is_leaving:
                raise HttpError(503, "server_shutting_down", "the server is shutting down; send the request again")
            answer.begin(submit, self._identify())
        except Exception as error:
            answer.refuse(error)

    def _new_answer(self, number: int, request_id: str | None) -> LinkAnswer:
        name = choose_request_id(request_id)
        exchange = Exchange(request_id=name, method="POST", path=PATH, route=PATH, model=self._model)
        # Two gateways may give the same name.
        answer = LinkAnswer(self, number, f"{self._name}/{number}", self._services, exchange)
        self._answers[number] = answer
        return answer

    def _read(self, payload: memoryview | None) -> Submit:
        if payload is None:
            limit = self._services.config.max_body_bytes
            raise HttpError(413, "request_too_large", f"the request has more than {limit} bytes")
        try:
            return read_submit(payload)
        except MessageError as error:
            raise HttpError(400, "invalid_messagepack", str(error)) from None

    def _send(self, data: bytes) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        self._is_flush_due = self._has_hurried = False
        if self._unsent:
            self._write()

    def _write(self) -> None:
        self._is_silent = False
        data = b"".join(self._unsent)
        self._unsent.clear()
        if not self._transport.is_closing():
            self._transport.write(data)

    def _show_life(self) -> None:
        """Send something now and then: proxies keep the connection open, and the gateway knows that it is."""
        if self._is_silent:
            self._send(frame(Kind.ALIVE, 0))
        self._is_silent = True
        self._life_timer = self._loop.call_later(self._services.config.keep_alive_seconds, self._show_life)

    def _close_if_done(self) -> None:
        if self._is_leaving and not self._answers:
            # Behind what is to be sent.
            self._loop.call_soon(self._transport.close)
