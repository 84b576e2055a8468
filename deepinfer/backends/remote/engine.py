"""The gateway behind the asyncio `Engine` protocol: owns the upstreams, what is in flight, and the watch over both.

Runs in the event loop that called `start`. Knows nothing of text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from deepinfer.backends.admission import check_request
from deepinfer.backends.outbox import Outbox
from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.dialects import GrammarForm
from deepinfer.backends.remote.flight import Flight, aborted
from deepinfer.backends.remote.routing import Router
from deepinfer.backends.remote.upstream import Upstream
from deepinfer.backends.stream import OutboxStream
from deepinfer.core import Health, ModelDescription, OutputStream, Peer, Request
from deepinfer.errors import EngineError

logger = logging.getLogger(__name__)

_LONGEST_TICK: Final = 0.5
_TICKS_PER_TIMEOUT: Final = 10


class RemoteEngine:
    """`Engine` whose tokens come from other servers. Call its methods from the event loop that called `start`."""

    def __init__(self, config: RemoteConfig) -> None:
        self._config = config
        self._upstreams = [Upstream(origin, config) for origin in config.upstreams]
        self._router = Router(len(self._upstreams), load_cap=config.load_cap)
        self._flights: dict[str, tuple[Flight, asyncio.Task[None]]] = {}
        # Those of them without a token: each request asks how many there are.
        self._waiting: set[Flight] = set()
        self._watch: list[asyncio.Task[None]] = []
        self._context_length = config.context_length
        self._started = False

    @property
    def upstreams(self) -> list[Upstream]:
        """The upstreams, in the order of the settings."""
        return self._upstreams

    async def start(self) -> None:
        """Find out what the upstreams are. Raises `EngineError` if none of them can be used."""
        if self._started:
            return
        await asyncio.gather(*(upstream.check() for upstream in self._upstreams))
        if all(upstream.fault is not None for upstream in self._upstreams):
            faults = "; ".join(f"{upstream.name}: {upstream.fault}" for upstream in self._upstreams)
            raise EngineError(f"no upstream can be used: {faults}", code="upstream_unreachable")
        self._context_length = self._config.context_length or self._shortest_context()
        self._started = True
        # Each on its own, so that one that hangs does not keep another from coming back.
        watches = [upstream.watch() for upstream in self._upstreams]
        self._watch = [asyncio.create_task(work) for work in (*watches, self._watch_time())]

    async def stop(self) -> None:
        """End every request with `FinishReason.ABORT` and close all connections."""
        self._started = False
        tasks = [*self._watch, *(task for _, task in self._flights.values())]
        for request_id in list(self._flights):
            self.abort(request_id)
        for task in self._watch:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for upstream in self._upstreams:
            upstream.close()

    def submit(self, request: Request) -> OutputStream:
        """Send a request to an upstream and stream its outputs. Raises `EngineError` for one that cannot run."""
        if not self._started:
            raise EngineError("the gateway is not started", code="engine_stopped")
        outbox = Outbox()
        flight = Flight(request, outbox, self, self._config)
        # Refused now and not later: nothing may have been sent of the answer. And sent before it is checked: upstreams
        # check for themselves, and are at it meanwhile. Where both fail, the request's own fault is told.
        try:
            try:
                flight.begin()
            finally:
                check_request(request, model=self.describe(), in_flight=self._flights)
        except BaseException:
            flight.close()
            raise
        loop = asyncio.get_running_loop()
        task = loop.create_task(flight.run())
        # A task that is cancelled before its first turn never runs.
        task.add_done_callback(lambda _: flight.close())
        self._flights[request.request_id] = (flight, task)
        self._waiting.add(flight)

        def abandon() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._end, request.request_id, flight)

        return OutboxStream(outbox, abandon=abandon)

    def abort(self, request_id: str) -> None:
        """End a request now; its stream ends with `FinishReason.ABORT`. Unknown ids are ignored."""
        found = self._flights.get(request_id)
        if found is not None:
            self._end(request_id, found[0])

    def describe(self) -> ModelDescription:
        """Describe the served model. Raises `EngineError` before the start if the context length is not set."""
        if self._context_length is None:
            raise EngineError("the gateway is not started", code="engine_stopped")
        return ModelDescription(
            name=self._config.name,
            recipe_version=self._config.recipe_version,
            vocabulary_size=self._config.vocabulary_size,
            context_length=self._context_length,
        )

    def health(self) -> Health:
        """Report the state; requests wait until their first token."""
        peers = tuple(
            Peer(name=upstream.name, ready=upstream.fault is None, running=upstream.running)
            for upstream in self._upstreams
        )
        faults = [f"{upstream.name}: {upstream.fault}" for upstream in self._upstreams if upstream.fault is not None]
        return Health(
            ready=self._started and any(peer.ready for peer in peers),
            running=len(self._flights) - len(self._waiting),
            waiting=len(self._waiting),
            cache_bytes=0,
            detail="; ".join(faults) if self._started else "not started",
            peers=peers,
        )

    def route(self, request: Request, tried: list[Upstream]) -> Upstream:
        """Choose an upstream, one that was not tried if there is one. Raises `EngineError` if there is none."""
        usable = self._candidates(request)
        fresh = [upstream for upstream in usable if upstream not in tried] or usable
        place = self._router.choose(
            request.token_ids,
            [upstream.running if upstream in fresh else None for upstream in self._upstreams],
        )
        assert place is not None
        return self._upstreams[place]

    def forget(self, request_id: str, flight: Flight) -> None:
        """Take note that a flight has ended."""
        found = self._flights.get(request_id)
        if found is not None and found[0] is flight:
            del self._flights[request_id]
            self._waiting.discard(flight)

    def take_note_of_tokens(self, flight: Flight) -> None:
        """Take note that a flight has its first token."""
        self._waiting.discard(flight)

    def _candidates(self, request: Request) -> list[Upstream]:
        """Upstreams that can do what a request asks. Raises `EngineError` if there is none."""
        working = [upstream for upstream in self._upstreams if upstream.fault is None]
        if not working:
            raise EngineError(
                "; ".join(f"upstream {upstream.name}: {upstream.fault}" for upstream in self._upstreams),
                code="upstream_unreachable",
            )
        lacks = [_lack(request, upstream) for upstream in working]
        able = [upstream for upstream, lack in zip(working, lacks, strict=True) if lack is None]
        if not able:
            raise next(lack for lack in lacks if lack is not None)
        return able

    def _end(self, request_id: str, flight: Flight) -> None:
        # The request may have ended unread, and its id may belong to another by now.
        found = self._flights.get(request_id)
        if found is not None and found[0] is flight:
            self.forget(request_id, flight)
            found[1].cancel()
            flight.outbox.put(aborted())

    def _shortest_context(self) -> int:
        found = [upstream.found for upstream in self._upstreams if upstream.found is not None]
        known = [one.context_length for one in found if one.context_length is not None]
        if not known:
            message = "no upstream tells its context length; pass it with --context-length"
            raise EngineError(message, code="invalid_configuration")
        return min(known)

    async def _watch_time(self) -> None:
        shortest = min(self._config.first_token_seconds, self._config.token_seconds)
        tick = min(_LONGEST_TICK, shortest / _TICKS_PER_TIMEOUT)
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            for flight, _ in list(self._flights.values()):
                flight.check_time(now)


def _lack(request: Request, upstream: Upstream) -> EngineError | None:
    """What a request asks for and an upstream cannot do; None if it can do all of it."""
    assert upstream.found is not None
    grammar, features = request.grammar, upstream.found.dialect.features
    if grammar is not None and grammar.required and features.grammar is GrammarForm.NONE:
        message = f"upstream {upstream.name} holds no answers to a grammar, which this request needs"
        return EngineError(message, code="grammar_not_supported", client_fault=True).about(grammar.field)
    if not features.token_ids:
        for asked, name in (
            (request.thinking_limit is not None, "limits of thinking"),
            (request.sampling.top_logprobs is not None, "log probabilities"),
        ):
            if asked:
                message = f"upstream {upstream.name} gives no token ids, and without them there are no {name}"
                return EngineError(message, code="sampling_not_supported", client_fault=True)
    return None
