"""Counters and gauges in Prometheus' text format. Owns its registry, so that two servers in a process never mix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

import deepseek_recipe as recipe
from deepinfer.core import Engine, Peer
from deepinfer.server.exchange import Exchange
from deepinfer.server.responses.store.interface import ResponseStore

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class _CodecCache(Collector):
    """What the codec keeps of texts of prompts, and how much of later ones was among it."""

    def __init__(self, options: recipe.Options) -> None:
        self._options = options

    def collect(self) -> Iterator[Metric]:
        """Read all figures at once."""
        found = self._options.range_cache
        name = "deepinfer_codec_cache"
        yield GaugeMetricFamily(f"{name}_bytes", "memory held by texts of prompts and their ids", found["held_bytes"])
        yield CounterMetricFamily(f"{name}_hit_bytes", "bytes of prompts whose ids were known", found["hit_bytes"])
        missed = "bytes of prompts that were tokenised, short ones not counted"
        yield CounterMetricFamily(f"{name}_missed_bytes", missed, found["missed_bytes"])


class Metrics:
    """What `/metrics` shows. Gauges ask the engine when they are read; `report` counts a request that has ended."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self._registry)
        self._add_engine_gauges(engine)
        # Plain, as those who count are all in the event loop's thread.
        self._in_flight = 0
        in_flight = self._gauge("http_requests_in_flight", "HTTP requests that have not ended")
        in_flight.set_function(lambda: self._in_flight)
        self._requests = Counter(
            "deepinfer_requests", "HTTP requests that have ended", ["route", "status"], registry=self._registry
        )
        self._prompt_tokens = self._counter("prompt_tokens", "tokens of prompts handed to the engine")
        self._cached_tokens = self._counter("cached_prompt_tokens", "tokens of prompts whose state was reused")
        self._completion_tokens = self._counter("completion_tokens", "tokens generated")
        self._unstored = self._counter("responses_not_stored", "responses that the store did not take")
        self._first_token = self._histogram("time_to_first_token_seconds", "from the request to its first token")
        self._duration = self._histogram("request_duration_seconds", "from the request to the end of its answer")

    def open_request(self) -> None:
        """Count a request that has arrived."""
        self._in_flight += 1

    def report(self, exchange: Exchange) -> None:
        """Count a request that has ended."""
        self._in_flight -= 1
        self._requests.labels(exchange.route, str(exchange.status or "none")).inc()
        self._prompt_tokens.inc(exchange.prompt_tokens or 0)
        self._cached_tokens.inc(exchange.cached_tokens or 0)
        self._completion_tokens.inc(exchange.completion_tokens)
        if exchange.prompt_tokens is not None:
            self._duration.observe(time.monotonic() - exchange.started)
        if exchange.first_token is not None:
            self._first_token.observe(exchange.first_token)

    def count_unstored(self) -> None:
        """Count a response that the store did not take."""
        self._unstored.inc()

    def watch_store(self, store: ResponseStore) -> None:
        """Show how much is kept."""
        self._gauge("stored_responses", "responses kept, when this server last wrote").set_function(
            lambda: store.usage.responses
        )
        self._gauge("stored_response_bytes", "bytes of them").set_function(lambda: store.usage.bytes)

    def watch_codec(self, options: recipe.Options) -> None:
        """Show what is known of the texts of prompts from earlier ones."""
        self._registry.register(_CodecCache(options))

    def render(self) -> bytes:
        """Render all of it."""
        return generate_latest(self._registry)

    def _add_engine_gauges(self, engine: Engine) -> None:
        self._gauge("ready", "1 if the engine takes requests").set_function(lambda: float(engine.health().ready))
        self._gauge("running", "sequences that hold cache memory").set_function(lambda: engine.health().running)
        self._gauge("waiting", "sequences that wait for memory").set_function(lambda: engine.health().waiting)
        cache_bytes = self._gauge("cache_bytes", "memory held by the caches of sequences in flight")
        cache_bytes.set_function(lambda: engine.health().cache_bytes)
        if peers := engine.health().peers:
            self._add_peer_gauges(engine, [peer.name for peer in peers])

    def _add_peer_gauges(self, engine: Engine, names: Sequence[str]) -> None:
        for name, text, value in (
            ("ready", "1 if the upstream takes requests", lambda peer: float(peer.ready)),
            ("running", "requests that are at the upstream", lambda peer: float(peer.running)),
        ):
            gauge = Gauge(f"deepinfer_upstream_{name}", text, ["upstream"], registry=self._registry)
            for place, upstream in enumerate(names):
                gauge.labels(upstream).set_function(partial(_peer_value, engine, place, value))

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"deepinfer_{name}", text, registry=self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"deepinfer_{name}", text, registry=self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"deepinfer_{name}", text, registry=self._registry, buckets=_SECONDS)


def _peer_value(engine: Engine, place: int, value: Callable[[Peer], float]) -> float:
    return value(engine.health().peers[place])
