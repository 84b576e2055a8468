"""One request to one upstream, and its answer as it comes. Owns the connection while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from deepinfer.backends.remote.connection import Connection, ConnectionFaultError
from deepinfer.backends.remote.dialects import Dialect
from deepinfer.backends.remote.faults import UpstreamFaultError, broken, refusal
from deepinfer.backends.remote.http_client import HttpClient
from deepinfer.backends.remote.patience import Patience
from deepinfer.backends.remote.sse import EventReader, EventTooLongError
from deepinfer.core import FinishReason, Request, StepOutput

_MAX_ERROR_BYTES: Final = 64 * 1024
# The first event may repeat the prompt's ids, at up to eight bytes each.
_EVENT_BYTES: Final = 1024 * 1024
_EVENT_BYTES_PER_ID: Final = 8
# How long the connection of a complete answer may take to be free again.
_DRAIN_SECONDS: Final = 1.0


class Call:
    """A `Receiver` of one answer. `deliver` takes each output, in the event loop's thread, and must not raise.

    The clock that is told to `check_time` is `time.monotonic`.
    """

    def __init__(
        self,
        client: HttpClient,
        dialect: Dialect,
        request: Request,
        deliver: Callable[[StepOutput], object],
        *,
        first_token_seconds: float,
        token_seconds: float,
    ) -> None:
        self._client = client
        self._dialect = dialect
        self._request = request
        self._body = dialect.body(request)
        self._deliver = deliver
        self._patience = Patience(
            first_token_seconds=first_token_seconds,
            token_seconds=token_seconds,
            max_tokens=request.sampling.max_tokens,
        )
        self._connection: Connection | None = None
        self._ended: asyncio.Future[FinishReason] = asyncio.get_running_loop().create_future()
        self._reader = dialect.reader(request)
        self._events = EventReader(_EVENT_BYTES + _EVENT_BYTES_PER_ID * len(request.token_ids))
        self._status = 0
        self._error = bytearray()
        self._is_paused = False
        self._is_drained = False

    def begin(self) -> None:
        """Send the request if a connection is open: `run` then starts with the wait for its answer."""
        path, media_type = self._dialect.path, self._dialect.media_type
        self._connection = self._client.send_now(path, self._body, self, media_type=media_type)

    async def run(self) -> FinishReason:
        """Send the request and wait for the end of its answer. Raises `UpstreamFaultError`."""
        try:
            try:
                if self._connection is None:
                    await self._send()
                return await self._ended
            except ConnectionFaultError as error:
                if not error.unheard:
                    raise
                # The upstream closed a connection that had been idle just then. Others may be as old.
                self._client.close_idle()
                self._ended = asyncio.get_running_loop().create_future()
                await self._send()
                return await self._ended
        except ConnectionFaultError as error:
            raise UpstreamFaultError(str(error), code="upstream_failed", retry=True, lost=True) from None
        finally:
            self.leave()

    def check_time(self, now: float) -> None:
        """End the call if its upstream has been silent for too long. A reader that is slow is not its fault."""
        if self._patience.is_over(now) and not self._ended.done():
            if self._reader.finish is not None:
                self._ended.set_result(self._reader.finish)
            else:
                self._fail(self._patience.fault())

    def pause(self) -> None:
        """Let the upstream wait."""
        if self._connection is not None and not self._is_paused and not self._is_drained:
            self._is_paused = True
            self._patience.stop()
            self._connection.pause()

    def resume(self) -> None:
        """Read on."""
        if self._is_paused:
            self._is_paused = False
            self._patience.resume()
            if self._connection is not None and not self._is_drained:
                self._connection.resume()

    def leave(self) -> None:
        """End the call. Gives the connection back: broken off, unless nothing but its end is missing."""
        if not self._ended.cancel() and not self._ended.cancelled():
            # It may never have been waited for.
            self._ended.exception()
        connection, self._connection = self._connection, None
        if connection is None or self._is_drained:
            return
        if self._reader.complete and self._reader.finish is not None:
            connection.resume()
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, connection.abort_request, self)
        else:
            connection.abort()

    # What the connection calls.

    def take_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Check that what comes is a stream."""
        self._status = status
        kind = headers.get("content-type", "")
        if status == 200 and not kind.startswith("text/event-stream"):
            self._fail(broken(f"it did not stream its answer, but sent {kind[:100] or 'something without a type'}"))

    def take_body(self, data: bytes) -> None:
        """Read the events that one read of the socket completed, and deliver what is in them as one output."""
        if self._ended.done():
            return
        if self._status != 200:
            self._error += data[: _MAX_ERROR_BYTES - len(self._error)]
            return
        try:
            events = self._events.feed(data)
            output = self._reader.read(events) if events else None
            if output is not None:
                self._patience.note(output)
                self._deliver(output)
        except UpstreamFaultError as fault:
            self._fail(fault)
        except EventTooLongError:
            self._fail(broken("it sent an event that is too long"))
        except Exception as error:
            # A fault of our own: the one who waits has to hear of it.
            self._fail(error)
        else:
            if self._reader.complete:
                self._finish()

    def take_end(self, fault: ConnectionFaultError | None) -> None:
        """Take the end of the response."""
        self._is_drained = True
        if self._ended.done():
            return
        if fault is not None:
            self._ended.set_exception(fault)
        elif self._status != 200:
            self._ended.set_exception(refusal(self._status, bytes(self._error)))
        else:
            self._finish()

    async def _send(self) -> None:
        path, media_type = self._dialect.path, self._dialect.media_type
        self._connection = await self._client.send("POST", path, self._body, self, media_type=media_type)

    def _finish(self) -> None:
        if self._reader.finish is None:
            self._fail(broken("it ended its answer without saying why"))
        else:
            self._ended.set_result(self._reader.finish)

    def _fail(self, fault: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(fault)
