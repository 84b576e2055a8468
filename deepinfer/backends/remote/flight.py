"""One request on its way through upstreams: tries, phases, and the outputs that come back.

Owns the request's task. Tokens go from the socket to the outbox in one call; the task only waits for the end.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final, Protocol

from deepinfer.backends.outbox import Outbox, do_nothing
from deepinfer.backends.remote.call import Call
from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.faults import UpstreamFaultError
from deepinfer.backends.remote.phases import Phases
from deepinfer.backends.remote.upstream import Upstream
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob
from deepinfer.errors import EngineError

logger = logging.getLogger(__name__)

_MAX_TRIES: Final = 3
_MAX_TRIES_AT_ONE: Final = 2
# Before the same upstream is tried again.
_PAUSE_SECONDS: Final = 0.2
# A token that is forced has no choice; how likely the model found it is not known.
_FORCED: Final = TokenLogprob(logprob=0.0)


class Routes(Protocol):
    """Where a flight may go."""

    def route(self, request: Request, tried: list[Upstream]) -> Upstream:
        """Choose an upstream, one that was not tried if there is one. Raises `EngineError` if there is none."""

    def forget(self, request_id: str, flight: Flight) -> None:
        """Take note that a flight has ended."""


class Flight:
    """A request in flight; `run` takes it to its end."""

    def __init__(self, request: Request, outbox: Outbox, routes: Routes, config: RemoteConfig) -> None:
        self.request_id = request.request_id
        self.outbox = outbox
        self.has_tokens = False
        self._request = request
        self._routes = routes
        self._config = config
        self._call: Call | None = None
        self._phases: Phases | None = None
        self._is_first_phase = True
        # Tokens that no upstream wrote, to go out before what comes next.
        self._own: tuple[int, ...] = ()
        outbox.on_drained = self._resume

    async def run(self) -> None:
        """Bring the answer into the outbox, or an error."""
        end: FinishReason | EngineError
        try:
            end = await self._try_upstreams()
        except EngineError as error:
            end = error
        except Exception as error:
            logger.exception("the gateway failed at %s", self.request_id)
            message = f"the gateway failed with {type(error).__name__}; its log has the details"
            end = EngineError(message, code="engine_failed")
        finally:
            # The two know each other, and would keep the prompt until the next collection of such garbage.
            self.outbox.on_drained = do_nothing
        # Before the reader hears of it, who may use the id again.
        self._routes.forget(self.request_id, self)
        if isinstance(end, EngineError):
            self.outbox.fail(end)
        else:
            self._put_own()
            self.outbox.put(StepOutput(token_ids=(), finish_reason=end))

    def check_time(self, now: float) -> None:
        """End a call whose upstream has been silent for too long."""
        if self._call is not None:
            self._call.check_time(now)

    async def _try_upstreams(self) -> FinishReason:
        tried: list[Upstream] = []
        failure: EngineError | None = None
        while True:
            try:
                upstream = self._routes.route(self._request, tried)
            except EngineError as error:
                raise failure or error from None
            if upstream in tried:
                await asyncio.sleep(_PAUSE_SECONDS)
            tried.append(upstream)
            try:
                return await self._run_at(upstream)
            except UpstreamFaultError as fault:
                failure = fault.of(upstream.name)
                if fault.lost:
                    upstream.leave_out(str(fault))
                if self.has_tokens or not fault.retry:
                    raise failure from None
                if len(tried) == _MAX_TRIES or tried.count(upstream) == _MAX_TRIES_AT_ONE:
                    raise failure from None
                # What the upstream said may hold words of the prompt.
                logger.warning("%s is tried again: %s at upstream %s", self.request_id, fault.code, upstream.name)

    async def _run_at(self, upstream: Upstream) -> FinishReason:
        assert upstream.found is not None
        dialect = upstream.found.dialect
        phases = self._phases = Phases(self._request, dialect.features.grammar)
        self._own = phases.opening()
        self._is_first_phase = True
        upstream.running += 1
        try:
            while phases.finish is None:
                call = self._call = Call(
                    upstream.client,
                    dialect,
                    phases.next_request(),
                    self._deliver,
                    first_token_seconds=self._config.first_token_seconds,
                    token_seconds=self._config.token_seconds,
                )
                reason = await call.run()
                self._is_first_phase = False
                self._own += phases.end(reason)
            return phases.finish
        finally:
            upstream.running -= 1
            self._call = None

    def _deliver(self, output: StepOutput) -> None:
        assert self._phases is not None
        output = self._phases.take(output)
        if not self._is_first_phase and output.cached_tokens is not None:
            # Of its prompt, which holds what the answer had so far.
            output = replace(output, cached_tokens=None)
        self._put_own()
        self.has_tokens = self.has_tokens or bool(output.token_ids or output.text)
        self.outbox.put(output)
        if self.outbox.is_full and self._call is not None:
            self._call.pause()

    def _put_own(self) -> None:
        if self._own:
            logprobs = None if self._request.sampling.top_logprobs is None else (_FORCED,) * len(self._own)
            self.outbox.put(StepOutput(token_ids=self._own, logprobs=logprobs))
            self._own = ()

    def _resume(self) -> None:
        if self._call is not None:
            self._call.resume()


def aborted() -> StepOutput:
    """The last output of a request that was ended from outside."""
    return StepOutput(token_ids=(), finish_reason=FinishReason.ABORT)
