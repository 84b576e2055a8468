"""What a gateway costs: the same open-loop traffic to an upstream alone and through the gateway, in turn.

Requests are sent when a Poisson process says so, whether or not others have been answered, and latency counts from that
moment: a slow server cannot make its own load lighter. A conversation waits for its answer; then the next arrival takes
it up, or begins another if none is ready.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

import msgspec

from deepinfer.bench.answers import Answer
from deepinfer.bench.client import Client, Reply
from deepinfer.bench.figures import Summary, summarize
from deepinfer.bench.processes import metrics
from deepinfer.bench.traffic import Conversation, Traffic, arrivals
from deepinfer.mistakes import CommandError

_TURNS: Final = 8
_CPU: Final = "process_cpu_seconds_total"


@dataclass(frozen=True, slots=True)
class Load:
    """Open-loop traffic: `rate` requests a second on average, measured for `seconds` after `warm_up` seconds."""

    rate: float
    warm_up: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round's figures. Times are in milliseconds, processor times in microseconds a token, None if not shown.

    `first_token` counts from the scheduled arrival; `late` is how long after it the generator sent. `streams` is the
    mean number of answers on their way, `failed` that of requests without a whole answer.
    """

    first_token: Summary
    between_tokens: Summary
    late: Summary
    streams: float
    tokens: float
    cached_share: float
    failed: int
    generator_cpu: float
    server_cpu: dict[str, float | None]

    def json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        converted: dict[str, Any] = msgspec.to_builtins(self)
        return converted


@dataclass(slots=True)
class _Exchange:
    scheduled: float
    reply: Reply
    answer: Answer

    @property
    def failed(self) -> bool:
        return self.reply.status != 200 or self.reply.broken or not self.answer.finished or bool(self.answer.error)


async def run_round(url: str, servers: dict[str, str], load: Load, *, model: str, seed: int) -> Round:
    """Send one round of traffic to `url`, and take the processor times of `servers`, addresses by name.

    Raises `CommandError` if nothing was answered.
    """
    generator = _Generator(Client(url), Traffic(seed, model))
    start = time.perf_counter() + 0.2
    sending = asyncio.create_task(generator.send(start, arrivals(load.rate, load.warm_up + load.seconds, seed)))
    window = (start + load.warm_up, start + load.warm_up + load.seconds)
    readings = []
    for at in window:
        await asyncio.sleep(at - time.perf_counter())
        readings.append((time.process_time(), await asyncio.to_thread(_cpu_seconds, servers)))
    await sending
    (own_before, before), (own_after, after) = readings
    return _round(generator.exchanges, window, own_after - own_before, _differences(before, after))


class _Generator:
    """Sends requests at their times. Owns the conversations that wait for their next turn."""

    def __init__(self, client: Client, traffic: Traffic) -> None:
        self.exchanges: list[_Exchange] = []
        self._client = client
        self._traffic = traffic
        self._ready: deque[Conversation] = deque()

    async def send(self, start: float, times: Iterable[float]) -> None:
        """Send all requests and wait for their answers."""
        async with asyncio.TaskGroup() as group:
            for at in times:
                # Written before it is due, so that its size makes it no later.
                conversation = self._ready.popleft() if self._ready else self._traffic.conversation()
                body = msgspec.json.encode(conversation.body())
                await asyncio.sleep(start + at - time.perf_counter())
                group.create_task(self._ask(conversation, body, start + at))
        self._client.close()

    async def _ask(self, conversation: Conversation, body: bytes, scheduled: float) -> None:
        try:
            reply = await self._client.ask(conversation.protocol, body)
        except (OSError, TimeoutError):
            reply = Reply(conversation.protocol, broken=True)
        exchange = _Exchange(scheduled, reply, reply.answer())
        self.exchanges.append(exchange)
        if not exchange.failed and conversation.turn + 1 < _TURNS:
            conversation.advance(exchange.answer)
            self._ready.append(conversation)


def differences(alone: Sequence[Round], through: Sequence[Round]) -> dict[str, float]:
    """What the gateway adds, in milliseconds: medians of the differences of rounds that belong together."""
    return {
        f"{name}_{share}": median(
            getattr(getattr(b, name), share) - getattr(getattr(a, name), share)
            for a, b in zip(alone, through, strict=True)
        )
        for name in ("first_token", "between_tokens")
        for share in ("p50", "p95", "p99")
    }


def _round(
    exchanges: Sequence[_Exchange], window: tuple[float, float], own_cpu: float, cpu: dict[str, float | None]
) -> Round:
    start, end = window
    measured = [e for e in exchanges if start <= e.scheduled < end]
    whole = [e for e in measured if not e.failed]
    gaps = [gap for e in exchanges if not e.failed for gap in e.reply.gaps(start, end)]
    if not whole or not gaps:
        reasons = {f"status {e.reply.status} {bytes(e.reply.body[:200])!r}" for e in measured if e.failed}
        raise CommandError("no request was answered: " + ("; ".join(sorted(reasons)[:3]) or "measure for longer"))
    tokens = sum(_tokens_within(e, start, end) for e in exchanges)
    return Round(
        first_token=summarize([1e3 * ((e.reply.first or e.reply.ended) - e.scheduled) for e in whole]),
        between_tokens=summarize([1e3 * gap for gap in gaps]),
        late=summarize([1e3 * (e.reply.sent - e.scheduled) for e in whole]),
        streams=sum(max(0.0, min(end, e.reply.ended) - max(start, e.reply.sent)) for e in exchanges) / (end - start),
        tokens=tokens,
        cached_share=sum(e.answer.cached_tokens for e in whole) / sum(e.answer.prompt_tokens for e in whole),
        failed=len(measured) - len(whole),
        generator_cpu=1e6 * own_cpu / tokens,
        server_cpu={name: None if seconds is None else 1e6 * seconds / tokens for name, seconds in cpu.items()},
    )


def _tokens_within(exchange: _Exchange, start: float, end: float) -> float:
    """Tokens of an answer that came from `start` to `end`: its packets bring equal parts."""
    inside = [start <= at < end for at, _ in exchange.reply.marks]
    return exchange.answer.completion_tokens * fmean(inside) if inside else 0.0


def _cpu_seconds(servers: dict[str, str]) -> dict[str, float | None]:
    return {name: metrics(url).get(_CPU) for name, url in servers.items()}


def _differences(before: dict[str, float | None], after: dict[str, float | None]) -> dict[str, float | None]:
    return {name: None if old is None else (after[name] or 0.0) - old for name, old in before.items()}
