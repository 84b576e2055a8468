"""One request to an upstream over its link, and its answer as it comes. Owns the request's number while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from deepinfer.backends.remote.connection import ConnectionFaultError
from deepinfer.backends.remote.dialects import check_ids
from deepinfer.backends.remote.faults import UpstreamFaultError, broken, refusal_of
from deepinfer.backends.remote.link import Link
from deepinfer.backends.remote.patience import Patience
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob
from deepinfer.link.frames import Frame, Kind
from deepinfer.link.messages import MessageError, read_failure, read_output


class LinkLostError(Exception):
    """The link broke before anything came of the answer: it may have been old, and the upstream well."""


class LinkCall:
    """A `LinkUser`. `deliver` takes each output, in the event loop's thread, and must not raise."""

    def __init__(
        self,
        link: Link,
        request: Request,
        deliver: Callable[[StepOutput], object],
        *,
        vocabulary_size: int,
        first_token_seconds: float,
        token_seconds: float,
    ) -> None:
        self._link = link
        self._request = request
        self._deliver = deliver
        self._vocabulary_size = vocabulary_size
        self._patience = Patience(
            first_token_seconds=first_token_seconds,
            token_seconds=token_seconds,
            max_tokens=request.sampling.max_tokens,
        )
        self._ended: asyncio.Future[FinishReason] = asyncio.get_running_loop().create_future()
        self._number: int | None = None
        # Whether anything came, and whether the upstream has ended the request.
        self._is_heard = False
        self._is_answered = False
        self._is_paused = False

    def begin(self) -> None:
        """Send the request."""
        self._number = self._link.submit(self._request, self)

    async def run(self) -> FinishReason:
        """Wait for the end of the answer. Raises `UpstreamFaultError`, and `LinkLostError` if nothing of it came."""
        try:
            return await self._ended
        except ConnectionFaultError as error:
            if not self._is_heard:
                raise LinkLostError from None
            raise UpstreamFaultError(str(error), code="upstream_failed", retry=True, lost=True) from None
        finally:
            self.leave()

    def check_time(self, now: float) -> None:
        """End the call if its upstream has been silent for too long. A reader that is slow is not its fault."""
        if self._patience.is_over(now):
            self._fail(self._patience.fault())

    def pause(self) -> None:
        """Let the upstream wait."""
        if not self._is_paused:
            self._is_paused = True
            self._patience.stop()
            self._tell(Kind.PAUSE)

    def resume(self) -> None:
        """Let it go on."""
        if self._is_paused:
            self._is_paused = False
            self._patience.resume()
            self._tell(Kind.RESUME)

    def leave(self) -> None:
        """End the call, and the request at the upstream if that has not ended it."""
        if self._number is None:
            return
        if not self._is_answered:
            self._tell(Kind.ABORT)
        if not self._ended.cancel() and not self._ended.cancelled():
            # It may never have been waited for.
            self._ended.exception()
        self._link.leave(self._number)
        self._number = None

    # What the link calls.

    def take(self, one: Frame) -> None:
        """Take a frame of the answer."""
        if self._ended.done():
            return
        self._is_heard = True
        try:
            if one.payload is None:
                raise broken("it sent a frame that is too long")
            if one.kind == Kind.FAILED:
                self._is_answered = True
                failed = read_failure(one.payload)
                raise refusal_of(failed.status, failed.code, failed.message, failed.field)
            self._take_output(read_output(one.payload))
        except UpstreamFaultError as fault:
            self._fail(fault)
        except MessageError as error:
            self._fail(broken(f"it sent {error}"))
        except Exception as error:
            # A fault of our own: the one who waits has to hear of it.
            self._fail(error)

    def take_loss(self, fault: ConnectionFaultError) -> None:
        """Take note that the link broke."""
        self._is_answered = True
        self._fail(fault)

    def _take_output(self, output: StepOutput) -> None:
        reason = output.finish_reason
        self._is_answered = reason is not None
        if reason is FinishReason.ABORT:
            raise broken("it ended the answer: abort")
        check_ids(output.token_ids, self._vocabulary_size)
        self._patience.note(output)
        if reason is not None or output.logprobs is not None or self._request.sampling.top_logprobs is not None:
            output = replace(output, logprobs=self._checked_logprobs(output), finish_reason=None)
        if output.token_ids or output.text or output.cached_tokens is not None:
            self._deliver(output)
        if reason is not None:
            self._ended.set_result(reason)

    def _checked_logprobs(self, output: StepOutput) -> tuple[TokenLogprob, ...] | None:
        asked, found = self._request.sampling.top_logprobs, output.logprobs
        if asked is None or output.text is not None:
            return None
        if len(found or ()) != len(output.token_ids):
            raise broken(f"it sent {len(output.token_ids)} tokens and not as many log probabilities")
        for entry in found or ():
            check_ids([token_id for token_id, _ in entry.top], self._vocabulary_size)
        return tuple(replace(entry, top=entry.top[:asked]) for entry in found or ())

    def _tell(self, kind: Kind) -> None:
        if self._number is not None:
            self._link.tell(kind, self._number)

    def _fail(self, fault: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(fault)
