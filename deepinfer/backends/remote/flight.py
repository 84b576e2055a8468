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
from deepinfer.backends.remote.link_call import LinkCall, LinkLostError
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

    def take_note_of_tokens(self, flight: Flight) -> None:
        """Take note that a flight has its first token."""


class Flight:
    """A request in flight: `begin` sends it, `run` takes it to its end, `close` lets go of what it holds."""

    def __init__(self, request: Request, outbox: Outbox, routes: Routes, config: RemoteConfig) -> None:
        self.request_id = request.request_id
        self.outbox = outbox
        self.has_tokens = False
        self._request = request
        self._routes = routes
        self._config = config
        self._tried: list[Upstream] = []
        # Where it is now, if anywhere.
        self._upstream: Upstream | None = None
        self._call: Call | LinkCall | None = None
        self._phases: Phases | None = None
        self._is_first_phase = True
        # Tokens that no upstream wrote, to go out before what comes next.
        self._own: tuple[int, ...] = ()
        outbox.on_drained = self._resume

    def begin(self) -> None:
        """Choose an upstream, and send the request if a connection is open. Raises `EngineError` if there is none.

        Done before the flight's task runs, as its first turn may come late.
        """
        self._enter(self._routes.route(self._request, self._tried))

    def close(self) -> None:
        """Let go of all that the flight holds."""
        self._leave()
        # The two know each other, and would keep the prompt until the next collection of such garbage.
        self.outbox.on_drained = do_nothing

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
        while True:
            upstream = self._tried[-1]
            try:
                return await self._run_phases()
            except UpstreamFaultError as fault:
                failure = fault.of(upstream.name)
                if fault.lost:
                    upstream.leave_out(str(fault))
                if self.has_tokens or not fault.retry:
                    raise failure from None
                if len(self._tried) == _MAX_TRIES or self._tried.count(upstream) == _MAX_TRIES_AT_ONE:
                    raise failure from None
                # What the upstream said may hold words of the prompt.
                logger.warning("%s is tried again: %s at upstream %s", self.request_id, fault.code, upstream.name)
            try:
                upstream = self._routes.route(self._request, self._tried)
                if upstream in self._tried:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    upstream = self._routes.route(self._request, self._tried)
                self._enter(upstream)
            except EngineError:
                raise failure from None

    def _enter(self, upstream: Upstream) -> None:
        assert upstream.found is not None
        self._dialect = upstream.found.dialect
        self._phases = Phases(self._request, self._dialect.features.grammar)
        self._own = self._phases.opening()
        self._is_first_phase = True
        self._tried.append(upstream)
        if self._phases.finish is None:
            self._begin_call(upstream, self._phases)
        self._upstream = upstream
        upstream.running += 1

    def _begin_call(self, upstream: Upstream, phases: Phases, *, over_http: bool = False) -> Call | LinkCall:
        request, link, config = phases.next_request(), upstream.link, self._config
        limits = {"first_token_seconds": config.first_token_seconds, "token_seconds": config.token_seconds}
        call: Call | LinkCall
        if over_http or link is None or not link.is_ready:
            call = Call(upstream.client, self._dialect, request, self._deliver, **limits)
        else:
            call = LinkCall(link, request, self._deliver, vocabulary_size=config.vocabulary_size, **limits)
        self._call = call
        call.begin()
        return call

    async def _run_phases(self) -> FinishReason:
        upstream, phases = self._tried[-1], self._phases
        assert phases is not None
        try:
            while phases.finish is None:
                call = self._call or self._begin_call(upstream, phases)
                try:
                    reason = await call.run()
                except LinkLostError:
                    reason = await self._begin_call(upstream, phases, over_http=True).run()
                self._call = None
                self._is_first_phase = False
                self._own += phases.end(reason)
            return phases.finish
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._call is not None:
            self._call.leave()
            self._call = None
        if self._upstream is not None:
            self._upstream.running -= 1
            self._upstream = None

    def _deliver(self, output: StepOutput) -> None:
        assert self._phases is not None
        output = self._phases.take(output)
        if not self._is_first_phase and output.cached_tokens is not None:
            # Of its prompt, which holds what the answer had so far.
            output = replace(output, cached_tokens=None)
        self._put_own()
        if not self.has_tokens and (output.token_ids or output.text):
            self.has_tokens = True
            self._routes.take_note_of_tokens(self)
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
