"""Whether a gateway stands long load: `make soak SECONDS=600`, or `python -m benchmarks.soak`.

Streams of all three protocols run through a gateway to scripted upstreams, each starting anew as it ends. Some clients
hang up at a random place, in an answer or within their own request; some send bodies that no server takes. No answer
may be a 5xx or break, and each broken body must be a 4xx.

After a warm-up with the same load everything rests, and again after the run: nothing may be on its way then, and the
file handles must be as many as before. Connections between gateway and upstreams stay open for a while and are used
again, so they are counted at the upstreams, where they may be as many as there are streams, and not at the gateway. No
server may hold more than 5 % more memory in the second half of the run than at the end of the first; runs of less than
a minute do not tell, as caches fill meanwhile. Prints a table and exits with 1 if something failed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec
import uvloop

from deepinfer.bench.answers import PATHS, Protocol
from deepinfer.bench.client import Client
from deepinfer.bench.figures import table
from deepinfer.bench.processes import MODEL, gateway, metrics, upstream
from deepinfer.bench.traffic import Conversation, Traffic

_GATEWAY: Final = "gateway"
_TURNS: Final = 4
_DISTINCT: Final = 1_500
_UPSTREAMS: Final = 2
_LEAST_SECONDS: Final = 60.0
_GROWTH: Final = 1.05
_REST_LIMIT: Final = 60.0
_MEMORY: Final = "process_resident_memory_bytes"
_FILES: Final = "process_open_fds"
_ON_THEIR_WAY: Final = ("deepinfer_running", "deepinfer_waiting", "deepinfer_http_requests_in_flight")
# The request that reads the gauges is one itself.
_AT_REST: Final = [0.0, 0.0, 1.0]
_DEEP: Final = 2_000

# What becomes of a good body, as text, to be refused.
_BREAKINGS: Final[Sequence[Callable[[bytes], bytes]]] = (
    lambda body: b"",
    lambda body: body[:-5],
    lambda body: body[: len(body) // 2],
    lambda body: body + body,
    lambda body: b"[]",
    lambda body: b'"text"',
    lambda body: b"\x16\x03\x01\x00\xff" + body,
    lambda body: body[:-1] + b',"user":"\xff"}',
    lambda body: body[:-1] + b',"temperature":NaN}',
    lambda body: body[:-1] + b',"x":' + b"[" * _DEEP + b"]" * _DEEP + b"}",
    lambda body: body[:-1] + b',"model":7}',
    lambda body: body[:-1] + b',"model":"unknown"}',
    lambda body: body[:-1] + b',"messages":[],"input":[]}',
    lambda body: body[:-1] + b',"tools":"none"}',
    lambda body: body.decode().encode("utf-16"),
)


@dataclass(slots=True)
class Tally:
    """What came of the requests. `faults` are the first answers that should not have been."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0

    def fault(self, text: str) -> None:
        """Count a fault, and keep the first ones."""
        self.fault_count += 1
        if len(self.faults) < 10:
            self.faults.append(text)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the verdict."""

    name: str
    wanted: str
    found: str
    passed: bool


def main() -> None:
    """Run, print and exit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="length of the run (%(default)s)")
    parser.add_argument("--streams", type=int, default=256, help="streams at a time (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of what clients do (%(default)s)")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        behind = [
            stack.enter_context(upstream(Path(folder), number, delay_seconds=0.05, length_scale=0.4))
            for number in range(_UPSTREAMS)
        ]
        front = stack.enter_context(gateway([server.url for server in behind]))
        servers = {_GATEWAY: front.url} | {f"upstream {place}": server.url for place, server in enumerate(behind)}
        checks = uvloop.run(_soak(servers, arguments.seconds, arguments.streams, arguments.seed))
    sys.exit(0 if all(check.passed for check in checks) else 1)


async def _soak(servers: Mapping[str, str], seconds: float, streams: int, seed: int) -> list[Check]:
    crowd = _Crowd(servers[_GATEWAY], streams, seed)
    fresh = await _files(servers)
    _tell(f"warm-up, {streams} streams")
    await crowd.run(min(30.0, seconds))
    await _rest(servers)
    before = await _files(servers)
    crowd.tally = Tally()
    watch = asyncio.create_task(_watch(servers, seconds))
    await crowd.run(seconds)
    memory = await watch
    checks = _verdict(crowd.tally) + await _rest(servers)
    checks += _handles(fresh, before, await _files(servers), streams)
    checks += [_memory(name, memory[name]) for name in servers] if seconds >= _LEAST_SECONDS else []
    print(_report(crowd.tally, checks))
    return checks


class _Crowd:
    """Clients that never stop asking. Owns their tally."""

    def __init__(self, url: str, streams: int, seed: int) -> None:
        self.tally = Tally()
        self._url = url
        self._streams = streams
        self._seed = seed
        self._whims = random.Random(seed)
        self._conversations = self._deal()

    async def run(self, seconds: float) -> None:
        """Let all clients ask for so long; answers that have begun are read to their end."""
        client = Client(self._url)
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(self._streams):
                group.create_task(self._live(client, end))
        client.close()

    def _deal(self) -> Iterator[Conversation]:
        # What a gateway remembers of conversations is bounded, but it would take longer than the run to fill.
        while True:
            traffic = Traffic(self._seed, MODEL, scale=0.1)
            for _ in range(_DISTINCT):
                yield traffic.conversation()

    async def _live(self, client: Client, end: float) -> None:
        # Not all at once: clients do not agree on when to begin.
        await asyncio.sleep(self._whims.random() * min(5.0, end - time.monotonic()))
        conversation = next(self._conversations)
        while time.monotonic() < end:
            try:
                if not await self._ask(client, conversation) or conversation.turn >= _TURNS:
                    conversation = next(self._conversations)
            except (OSError, TimeoutError) as error:
                self.tally.fault(f"{conversation.protocol}: {error!r}")

    async def _ask(self, client: Client, conversation: Conversation) -> bool:
        """Do what a client may do; tells whether the conversation goes on."""
        body = msgspec.json.encode(conversation.body())
        match self._whims.choices(("whole", "left", "refused", "half sent"), (70, 15, 10, 5))[0]:
            case "whole":
                return await self._read_whole(client, conversation, body)
            case "left":
                await self._leave(client, conversation.protocol, body)
            case "refused":
                await self._break(client, conversation.protocol, body)
            case _:
                await self._send_half(conversation.protocol, body)
        return False

    async def _read_whole(self, client: Client, conversation: Conversation, body: bytes) -> bool:
        reply = await client.ask(conversation.protocol, body)
        answer = reply.answer()
        self._count(conversation.protocol, "whole", reply.status)
        if reply.status != 200 or reply.broken or not answer.finished or answer.error:
            self.tally.fault(f"{conversation.protocol}: {reply.status}, {bytes(reply.body[-200:])!r}")
            return False
        conversation.advance(answer)
        return True

    async def _leave(self, client: Client, protocol: Protocol, body: bytes) -> None:
        reply = await client.ask(protocol, body, leave_after=self._whims.randrange(1, 60))
        self._count(protocol, "left", reply.status)
        if reply.status != 200:
            self.tally.fault(f"{protocol}: {reply.status} before its client left, {bytes(reply.body[-200:])!r}")

    async def _break(self, client: Client, protocol: Protocol, body: bytes) -> None:
        place = self._whims.randrange(len(_BREAKINGS))
        reply = await client.ask(protocol, _BREAKINGS[place](body))
        self._count(protocol, "refused", reply.status)
        if not 400 <= reply.status < 500:
            self.tally.fault(f"{protocol}: broken body {place} got {reply.status}, {bytes(reply.body[-200:])!r}")

    async def _send_half(self, protocol: Protocol, body: bytes) -> None:
        parts = urlsplit(self._url)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = f"POST {PATHS[protocol]} HTTP/1.1\r\nhost: soak\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        writer.write((head + body)[: self._whims.randrange(1, len(head) + len(body))])
        await asyncio.sleep(self._whims.random())
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self.tally.counts[protocol, "half sent"] += 1

    def _count(self, protocol: Protocol, kind: str, status: int) -> None:
        self.tally.counts[protocol, kind] += 1
        self.tally.statuses[status] += 1


async def _rest(servers: Mapping[str, str]) -> list[Check]:
    """Wait until nothing is on its way, at most for a minute."""
    checks = []
    limit = time.monotonic() + _REST_LIMIT
    for name, url in servers.items():
        while (gauges := await _values(url, *_ON_THEIR_WAY)) != _AT_REST and time.monotonic() < limit:
            await asyncio.sleep(0.5)
        checks.append(Check(f"{name}: running, waiting, in flight", str(_AT_REST), str(gauges), gauges == _AT_REST))
    # Connections that both sides have closed are gone a moment later.
    await asyncio.sleep(1)
    return checks


async def _files(servers: Mapping[str, str]) -> dict[str, float]:
    return {name: (await _values(url, _FILES))[0] for name, url in servers.items()}


async def _values(url: str, *names: str) -> list[float]:
    figures = await asyncio.to_thread(metrics, url)
    return [figures.get(name, -1.0) for name in names]


async def _watch(servers: Mapping[str, str], seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Memory of each server once a second: the part of the run that has gone by, and MiB."""
    start = time.monotonic()
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    while (gone := time.monotonic() - start) < seconds:
        for name, url in servers.items():
            seen[name].append((gone / seconds, (await _values(url, _MEMORY))[0] / 2**20))
        if round(gone) % 30 == 0:
            _tell(f"{gone:4.0f} s: " + ", ".join(f"{name} {values[-1][1]:.1f} MiB" for name, values in seen.items()))
        await asyncio.sleep(1)
    return seen


def _verdict(tally: Tally) -> list[Check]:
    server_errors = sum(count for status, count in tally.statuses.items() if status >= 500)
    whole = sum(count for (_, kind), count in tally.counts.items() if kind == "whole")
    return [
        Check("answers with 5xx", "0", str(server_errors), server_errors == 0),
        Check("other wrong or broken answers", "0", str(tally.fault_count), tally.fault_count == 0),
        Check("whole answers", "some", str(whole), whole > 0),
    ]


def _handles(
    fresh: Mapping[str, float], before: Mapping[str, float], after: Mapping[str, float], streams: int
) -> list[Check]:
    """Compare file handles before any load, after the warm-up and after the run."""
    behind = [name for name in fresh if name != _GATEWAY]
    kept = [{name: now[name] - fresh[name] for name in behind} for now in (before, after)]
    own = [now[_GATEWAY] - sum(open_.values()) for now, open_ in zip((before, after), kept, strict=True)]
    checks = [Check("gateway: file handles but those to upstreams", f"{own[0]:.0f}", f"{own[1]:.0f}", own[0] == own[1])]
    for name, count in kept[1].items():
        fits = 0 <= count <= streams
        checks.append(Check(f"{name}: connections kept open", f"0 to {streams}", f"{count:.0f}", fits))
    return checks


def _memory(name: str, seen: Sequence[tuple[float, float]]) -> Check:
    most = _GROWTH * [value for part, value in seen if part < 0.5][-1]
    highest = max(value for part, value in seen if part >= 0.5)
    return Check(f"{name}: MiB in the second half", f"<= {most:.1f}", f"{highest:.1f}", highest <= most)


def _report(tally: Tally, checks: Sequence[Check]) -> str:
    kinds = ("whole", "left", "refused", "half sent")
    rows = [("requests", *kinds), *((p, *(str(tally.counts[p, kind]) for kind in kinds)) for p in Protocol)]
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(tally.statuses.items()))
    lines = [("check", "wanted", "found", "")]
    lines += [(check.name, check.wanted, check.found, "ok" if check.passed else "FAILED") for check in checks]
    return "\n".join([table(rows), f"statuses {statuses}", "", table(lines), *tally.faults])


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
