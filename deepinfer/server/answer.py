"""One answer on its way from the engine, as events or as a whole body. The stream is the truth; the body is its fold.

Owns the answer's engine requests while it runs. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from functools import cached_property

from deepinfer.core import Engine
from deepinfer.errors import EngineError
from deepinfer.server.bridge import Transcript
from deepinfer.server.decoding import AnswerDecoder
from deepinfer.server.errors import HttpError, in_mid_answer
from deepinfer.server.exchange import Exchange
from deepinfer.server.generation import ChoiceOutput, Generation, LiveGenerations
from deepinfer.server.logging import log_failure
from deepinfer.server.waiting import WaitLimit
from deepinfer.server.work import Work

Keep = Callable[[bytes], Awaitable[bytes]]


class Answer:
    """An answer that runs while `frames` or `whole` does; `begin` may come before.

    After `wait_seconds` of silence the stream carries a sign of life. `keep` gets the finished body before its last
    bytes go out, and returns what goes out before them.
    """

    def __init__(
        self,
        engine: Engine,
        live: LiveGenerations,
        exchange: Exchange,
        work: Work,
        *,
        fingerprint: str,
        wait_seconds: float,
        keep: Keep | None = None,
    ) -> None:
        self.work = work
        self._live = live
        self._exchange = exchange
        self._wait_seconds = wait_seconds
        self._keep = keep
        self._fingerprint = fingerprint
        self._generation = Generation(engine, work.requests)

    @cached_property
    def decoder(self) -> AnswerDecoder:
        """What the answer is read with."""
        return self.work.decoder()

    async def begin(self) -> None:
        """Hand the requests to the engine, which is at work while all else is prepared.

        `frames` or `whole` must follow at once. Raises `EngineError`.
        """
        await self._generation.submit()

    async def whole(self) -> bytes:
        """Run to the end and return the body. Raises what stopped it."""
        async with aclosing(self._data()) as data:
            async for _ in data:
                pass
        return self.decoder.response()

    async def frames(self) -> AsyncGenerator[bytes]:
        """Run, yielding bytes of the stream as they come, with signs of life in between.

        A failure before the first of them is raised, a later one becomes the protocol's own error event.
        """
        begun = False
        try:
            async with aclosing(self._data()) as parts:
                async for part in parts:
                    begun = True
                    yield part
        except Exception as error:
            if not begun:
                raise
            yield self.fail(error)

    def fail(self, error: Exception) -> bytes:
        """End the answer with an error; the last bytes of its stream."""
        failure = in_mid_answer(error)
        self._exchange.error_code = failure.code
        log_failure(self._exchange, error)
        return self.decoder.fail(failure)

    def cancel(self) -> None:
        """End the answer from outside, by its client's wish."""
        self._generation.cancel()

    async def _data(self) -> AsyncGenerator[bytes]:
        async with self._generation:
            with self._live.tracking(self._generation, self._exchange), closing(WaitLimit(self._wait_seconds)) as limit:
                transcript = self._transcript()
                while not transcript.finished:
                    outputs = await self._generation.next_outputs(limit)
                    data = self._accept(transcript, outputs) if outputs else self.decoder.keep_alive()
                    if transcript.finished and self._keep is not None:
                        data = await self._keep(self.decoder.response()) + data
                    if data:
                        yield data

    def _transcript(self) -> Transcript:
        return Transcript(
            self.decoder,
            self._generation,
            self._exchange,
            choices=len(self.work.requests),
            fingerprint=self._fingerprint,
            single_call=self.work.single_call,
        )

    def _accept(self, transcript: Transcript, outputs: Sequence[ChoiceOutput]) -> bytes:
        try:
            return transcript.accept(outputs)
        except EngineError:
            if not self._generation.cancelled:
                raise
            message = "the request was cancelled by its client"
            raise HttpError(499, "request_cancelled", message) from None
