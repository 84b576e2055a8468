"""`deepinfer bench gateway`: what a gateway costs, and what its routing is worth, as a table, JSON and a plot.

Starts scripted upstreams and gateways of its own, or measures ones that run; routing is measured on its own only, as it
needs empty caches and ends an upstream.
"""

from __future__ import annotations

import os
import platform
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import uvloop

from deepinfer.bench import affinity, processes
from deepinfer.bench.client import Client
from deepinfer.bench.figures import table
from deepinfer.bench.overhead import Load, Round, differences, run_round
from deepinfer.bench.traffic import LENGTHS
from deepinfer.mistakes import CommandError, UsageError

_DELAY: Final = 0.02
# A call's markup and the end come on top of the words.
_MEAN_ANSWER: Final = fmean(LENGTHS.values()) + 50
_LONGEST_ANSWER: Final = max(LENGTHS.values()) + 50
_WAYS: Final = ("alone", "gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure. `target` and `upstream` are addresses of servers that run; None starts scripted ones.

    `rate` is in requests a second, None for what keeps `streams` answers of scripted upstreams on their way.
    """

    target: str | None
    upstream: str | None
    streams: int
    rate: float | None
    seconds: float
    rounds: int
    conversations: int
    seed: int


def run_bench(options: Options, *, json_file: Path | None, plot_file: Path | None) -> None:
    """Measure and print. Raises `UsageError` for an address that is none, `CommandError` if nothing can be measured."""
    if plot_file is not None:
        from deepinfer.bench.plot import draw, require

        require()
    result: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": _machine()}
    result["options"] = msgspec.to_builtins(options)
    print(result["machine"])
    if options.rounds:
        result["overhead"] = _overhead(options)
    if options.conversations and options.target is None:
        plan = affinity.Plan(conversations=options.conversations, seed=options.seed)
        routing = affinity.compare(plan, tell=_tell)
        result["routing"] = routing.json()
        print(_routing_table(plan, routing))
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    if plot_file is not None:
        draw(result, plot_file)


def _overhead(options: Options) -> dict[str, Any]:
    with _servers(options) as (upstream, gateway):
        model = _model_of(gateway)
        rate = options.rate or options.streams / (_MEAN_ANSWER * _DELAY)
        load = Load(rate=rate, warm_up=_LONGEST_ANSWER * _DELAY, seconds=options.seconds)
        rounds: dict[str, list[Round]] = {way: [] for way in _WAYS}
        for number in range(options.rounds):
            # Who goes first takes turns too.
            for way in _WAYS if number % 2 else reversed(_WAYS):
                _tell(f"overhead: round {number + 1} of {options.rounds}, {way}, {load.rate:.1f} requests a second")
                servers = {"upstream": upstream} | ({"gateway": gateway} if way == "gateway" else {})
                url = gateway if way == "gateway" else upstream
                round_ = uvloop.run(run_round(url, servers, load, model=model, seed=options.seed + number))
                rounds[way].append(round_)
    added = differences(rounds["alone"], rounds["gateway"])
    print(_overhead_table(rounds, added))
    return {"rate": rate, "added": added} | {way: [r.json() for r in rounds[way]] for way in _WAYS}


@contextmanager
def _servers(options: Options) -> Iterator[tuple[str, str]]:
    """Addresses of an upstream and a gateway before it, started here unless they run."""
    if options.target is not None and options.upstream is not None:
        yield _address(options.upstream), _address(options.target)
        return
    with (
        TemporaryDirectory() as folder,
        processes.upstream(Path(folder), 0, delay_seconds=_DELAY) as upstream,
        processes.gateway([upstream.url]) as gateway,
    ):
        yield upstream.url, gateway.url


def _address(url: str) -> str:
    try:
        Client(url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return url.rstrip("/")


def _overhead_table(rounds: dict[str, list[Round]], added: dict[str, float]) -> str:
    alone, through = rounds["alone"], rounds["gateway"]
    rows: list[tuple[str, ...]] = [("medians of rounds", "upstream alone", "gateway", "added")]
    for name, words in (("first_token", "first token"), ("between_tokens", "between tokens")):
        for share in ("p50", "p95", "p99"):
            cells = [f"{median(getattr(getattr(r, name), share) for r in way):.2f}" for way in (alone, through)]
            rows.append((f"{words}, {share}, ms", *cells, f"{added[f'{name}_{share}']:+.2f}"))
    for server in ("gateway", "upstream"):
        rows.append(
            (f"processor time of the {server}, µs a token", *(_cpu(way, server) for way in (alone, through)), "")
        )
    for label, name, form in (
        ("processor time of the generator, µs a token", "generator_cpu", "{:.0f}"),
        ("answers on their way", "streams", "{:.0f}"),
        ("cached share of prompts", "cached_share", "{:.1%}"),
    ):
        rows.append((label, *(form.format(median(getattr(r, name) for r in way)) for way in (alone, through)), ""))
    late = [
        f"{median(r.late.p50 for r in way):.2f} / {median(r.late.p99 for r in way):.2f}" for way in (alone, through)
    ]
    rows.append(("sent late by the generator, p50 / p99, ms", *late, ""))
    counts = [f"{sum(r.first_token.count for r in way)} / {sum(r.failed for r in way)}" for way in (alone, through)]
    rows.append(("requests answered / failed", *counts, ""))
    return table(rows)


def _cpu(rounds: list[Round], server: str) -> str:
    values = [round_.server_cpu.get(server) for round_ in rounds]
    known = [value for value in values if value is not None]
    return f"{median(known):.0f}" if known else "-"


def _routing_table(plan: affinity.Plan, routing: affinity.Routing) -> str:
    rows = [(f"{plan.conversations} conversations of {plan.turns} turns", "cached", "of one infinite", "failed")]
    for label, outcome in (
        ("one upstream that forgets nothing", routing.infinite),
        (f"{plan.upstreams} upstreams, in turn", routing.round_robin),
        (f"{plan.upstreams} upstreams, gateway", routing.affinity),
    ):
        rows.append((label, f"{outcome.share:.2%}", f"{routing.of_infinite(outcome):.2%}", str(outcome.failed)))
    moves = routing.moves
    lost = f"{moves.lost} conversations were there, {moves.others_moved} others moved, {moves.share:.1%} of all"
    return f"{table(rows)}\none upstream lost half-way: {lost}; {moves.failed} requests failed"


def _model_of(url: str) -> str:
    try:
        with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
            name: str = msgspec.json.decode(answer.read())["data"][0]["id"]
            return name
    except (OSError, LookupError, msgspec.DecodeError) as error:
        raise CommandError(
            f"{url}/v1/models names no model: {error!r}; give the address of a server that runs"
        ) from None


def _machine() -> str:
    load = os.getloadavg()[0]
    cores = os.cpu_count()
    python = platform.python_version()
    return f"deepinfer {version('deepinfer')}, {platform.system()}, {cores} cores, load {load:.2f}, Python {python}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
