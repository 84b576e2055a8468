"""An engine that replays token ids chosen by a function: tests and offline runs, with no model and no torch.

Knows only ids; whatever turns texts or rules into ids lies with its caller. Runs in the consumer's own task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from deepinfer.backends.admission import check_request
from deepinfer.cache.prefix import PrefixCache, packed
from deepinfer.core import FinishReason, Health, ModelDescription, OutputStream, Request, StepOutput
from deepinfer.errors import EngineError


@dataclass(frozen=True, slots=True)
class Script:
    """An answer: `tokens_per_step` ids at a time, each step `delay_seconds` after the one before.

    `finish_reason` comes with the last ids, unless `max_tokens` cuts them: then it is `FinishReason.LENGTH`.
    """

    token_ids: tuple[int, ...]
    tokens_per_step: int = 1
    delay_seconds: float = 0.0
    finish_reason: FinishReason = FinishReason.STOP

    def __post_init__(self) -> None:
        if self.tokens_per_step < 1:
            raise ValueError(f"tokens_per_step is {self.tokens_per_step}; it must be at least 1")


class ScriptedEngine:
    """`Engine` whose answers come from `choose`, called once per request as it is submitted.

    A script is replayed as it is: of the sampling parameters only `max_tokens` counts, and there are no log
    probabilities. Cached tokens are counted as an engine with a model would: the last `kept_sequences` are kept.
    """

    def __init__(
        self, choose: Callable[[Request], Script], description: ModelDescription, *, kept_sequences: int = 64
    ) -> None:
        self._choose = choose
        self._prefixes: PrefixCache[None] = PrefixCache(kept_sequences)
        self._description = description
        self._started = False
        # Weak, so that a stream its consumer dropped is no longer in flight.
        self._replays: WeakValueDictionary[str, _Replay] = WeakValueDictionary()

    async def start(self) -> None:
        """Become ready."""
        self._started = True

    async def stop(self) -> None:
        """End every stream with `FinishReason.ABORT`."""
        self._started = False
        for request_id in list(self._replays):
            self.abort(request_id)

    def submit(self, request: Request) -> OutputStream:
        """Stream the request's script. Raises `EngineError` for a request that no engine could run."""
        if not self._started:
            raise EngineError("the engine is not running; start it first", code="engine_stopped")
        check_request(request, model=self._description, in_flight=self._replays)
        replay = _Replay(self._choose(request), request, self._replays, self._prefixes)
        self._replays[request.request_id] = replay
        return replay

    def abort(self, request_id: str) -> None:
        """End a request now; its stream ends with `FinishReason.ABORT`. Unknown ids are ignored."""
        replay = self._replays.pop(request_id, None)
        if replay is not None:
            replay.abort()

    def describe(self) -> ModelDescription:
        """Describe the model the scripts stand for."""
        return self._description

    def health(self) -> Health:
        """Report the state; no cache is ever held."""
        return Health(
            ready=self._started,
            running=len(self._replays),
            waiting=0,
            cache_bytes=0,
            detail="" if self._started else "not started",
        )


class _Replay:
    """One script on its way out. Leaves `replays`, where its engine finds it, for `prefixes` when it ends."""

    def __init__(
        self,
        script: Script,
        request: Request,
        replays: WeakValueDictionary[str, _Replay],
        prefixes: PrefixCache[None],
    ) -> None:
        self._aborted = False
        self._waiter: asyncio.Future[None] | None = None
        # When the next output comes, in the event loop's time.
        self._due: float | None = None
        self._script = script
        self._token_ids = script.token_ids[: request.sampling.max_tokens]
        self._request = request
        self._replays = replays
        self._prefixes = prefixes
        self._place = 0
        self._ended = False

    def __aiter__(self) -> _Replay:
        return self

    async def __anext__(self) -> StepOutput:
        if self._ended:
            raise StopAsyncIteration
        await self._pause()
        if self._aborted:
            self._leave()
            return StepOutput(token_ids=(), finish_reason=FinishReason.ABORT)
        start, self._place = self._place, self._place + self._script.tokens_per_step
        cached_tokens = self._cached_tokens() if start == 0 else None
        if self._place >= len(self._token_ids):
            self._leave()
        return StepOutput(
            token_ids=self._token_ids[start : self._place],
            finish_reason=self._finish_reason() if self._ended else None,
            cached_tokens=cached_tokens,
        )

    def abort(self) -> None:
        """End the request; the next output says so."""
        self._aborted = True
        if self._waiter is not None:
            _wake(self._waiter)

    async def aclose(self) -> None:
        """End the request if it has not ended."""
        if not self._ended:
            self._leave()

    def _cached_tokens(self) -> int:
        # A model computes the last token of a prompt in any case: its logits are wanted.
        length, _ = self._prefixes.match(self._request.token_ids[:-1])
        return length

    def _leave(self) -> None:
        self._ended = True
        if not self._aborted:
            del self._replays[self._request.request_id]
        if self._place > 0:
            # A model never computes the last token of an answer.
            answer = self._token_ids[: self._place][:-1]
            self._prefixes.keep(packed(self._request.token_ids, answer), None)

    def _finish_reason(self) -> FinishReason:
        cut = len(self._token_ids) < len(self._script.token_ids)
        return FinishReason.LENGTH if cut else self._script.finish_reason

    async def _pause(self) -> None:
        if self._script.delay_seconds <= 0 or self._aborted:
            await asyncio.sleep(0)
            return
        # One timer: a wait with a timeout would make a task for every token.
        loop = asyncio.get_running_loop()
        if self._due is None:
            self._due = loop.time() + self._script.delay_seconds
        self._waiter = loop.create_future()
        timer = loop.call_at(self._due, _wake, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
        self._due = None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
