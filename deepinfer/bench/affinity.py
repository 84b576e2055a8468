"""What routing is worth to prefix caches: the same conversations over several upstreams, dealt out in different ways.

Compared is what the upstreams count as cached: with a gateway in front, with requests dealt out in turn by the client
itself, and with a single upstream that forgets nothing, which nobody can have and nothing beats.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from deepinfer.bench.client import Client
from deepinfer.bench.processes import MODEL, Server, gateway, upstream, upstream_of
from deepinfer.bench.traffic import Conversation, Traffic
from deepinfer.mistakes import CommandError

_AT_A_TIME: Final = 16
_LENGTH_SCALE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """How much: `conversations` of `turns` each, over `upstreams` that keep `kept_sequences` each."""

    upstreams: int = 8
    conversations: int = 200
    turns: int = 8
    kept_sequences: int = 64
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """Tokens that upstreams counted, and for each conversation the upstreams that answered its turns."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    failed: int = 0
    homes: dict[int, list[int]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Part of all prompts' tokens that were cached."""
        return self.cached_tokens / max(1, self.prompt_tokens)


@dataclass(frozen=True, slots=True)
class Moves:
    """What a lost upstream did: conversations it had, those of others that moved, and requests that failed."""

    conversations: int
    lost: int
    others_moved: int
    failed: int

    @property
    def share(self) -> float:
        """Part of all conversations that moved."""
        return (self.lost + self.others_moved) / self.conversations


@dataclass(frozen=True, slots=True)
class Routing:
    """Results of all ways, in the order in which they ran."""

    infinite: Outcome
    round_robin: Outcome
    affinity: Outcome
    moves: Moves

    def of_infinite(self, outcome: Outcome) -> float:
        """Cached share as part of what one infinite upstream gives."""
        return outcome.share / self.infinite.share

    def json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        ways = {"infinite": self.infinite, "round_robin": self.round_robin, "affinity": self.affinity}
        figures = {
            name: {
                "prompt_tokens": outcome.prompt_tokens,
                "cached_tokens": outcome.cached_tokens,
                "cached_share": outcome.share,
                "of_infinite": self.of_infinite(outcome),
                "failed": outcome.failed,
            }
            for name, outcome in ways.items()
        }
        return {**figures, "upstream_lost": {**msgspec.to_builtins(self.moves), "moved_share": self.moves.share}}


def compare(plan: Plan, *, tell: Callable[[str], None]) -> Routing:
    """Run all ways, each with fresh upstreams; `tell` hears what runs. Raises `CommandError`."""
    with TemporaryDirectory() as folder:
        tell("routing: one upstream that forgets nothing")
        with _upstreams(Path(folder), 1, plan.turns * plan.conversations) as (single,):
            infinite = asyncio.run(_Agents(plan, [single.url]).work())
        tell(f"routing: {plan.upstreams} upstreams in turn")
        with _upstreams(Path(folder), plan.upstreams, plan.kept_sequences) as servers:
            round_robin = asyncio.run(_Agents(plan, [server.url for server in servers]).work())
        tell(f"routing: {plan.upstreams} upstreams behind a gateway")
        with _upstreams(Path(folder), plan.upstreams, plan.kept_sequences) as servers, _gateway(servers) as front:
            affinity = asyncio.run(_Agents(plan, [front.url]).work())
        tell("routing: the same, and one upstream lost half-way")
        with _upstreams(Path(folder), plan.upstreams, plan.kept_sequences) as servers, _gateway(servers) as front:
            moves = asyncio.run(_lose_one(_Agents(plan, [front.url]), servers[0]))
    return Routing(infinite, round_robin, affinity, moves)


@contextmanager
def _upstreams(folder: Path, count: int, kept_sequences: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                upstream(folder, number, delay_seconds=0.0, kept_sequences=kept_sequences, length_scale=_LENGTH_SCALE)
            )
            for number in range(count)
        ]


def _gateway(servers: Sequence[Server]) -> Server:
    return gateway([server.url for server in servers])


class _Agents:
    """Conversations in random order, some at a time. Requests go to `urls` in turn. Owns what comes of them."""

    def __init__(self, plan: Plan, urls: Sequence[str]) -> None:
        traffic = Traffic(plan.seed, MODEL)
        self.outcome = Outcome()
        self.turns_done = 0
        self.turns = plan.turns * plan.conversations
        self._last_turn = plan.turns
        self._clients = [Client(url) for url in urls]
        self._next_client = itertools.cycle(self._clients)
        self._ready = [traffic.conversation() for _ in range(plan.conversations)]
        self._order = random.Random(plan.seed)

    async def work(self) -> Outcome:
        """Go through all turns. Raises `CommandError` if too many requests fail."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_A_TIME):
                group.create_task(self._work_on())
        for client in self._clients:
            client.close()
        return self.outcome

    async def _work_on(self) -> None:
        while self._ready:
            conversation = self._ready.pop(self._order.randrange(len(self._ready)))
            await self._turn(conversation)
            if conversation.turn < self._last_turn:
                self._ready.append(conversation)

    async def _turn(self, conversation: Conversation) -> None:
        """Ask, and go on if there is an answer; if not, the conversation asks again later."""
        reply = await next(self._next_client).ask(conversation.protocol, conversation.body())
        answer = reply.answer()
        if reply.status != 200 or not answer.finished or answer.error:
            self.outcome.failed += 1
            if self.outcome.failed > self.turns // 10:
                raise CommandError(
                    f"too many requests failed, the last with {reply.status} {bytes(reply.body[-300:])!r}"
                )
            return
        self.outcome.prompt_tokens += answer.prompt_tokens
        self.outcome.cached_tokens += answer.cached_tokens
        self.outcome.homes.setdefault(conversation.number, []).append(upstream_of(answer.text))
        self.turns_done += 1
        conversation.advance(answer)


async def _lose_one(agents: _Agents, victim: Server) -> Moves:
    """Kill upstream 0 when half of the turns are done."""
    work = asyncio.create_task(agents.work())
    while agents.turns_done < agents.turns // 2 and not work.done():
        await asyncio.sleep(0.005)
    victim.kill()
    before = {number: list(homes) for number, homes in agents.outcome.homes.items()}
    outcome = await work
    return moves(before, outcome.homes, lost=0, failed=outcome.failed)


def moves(before: Mapping[int, list[int]], after: Mapping[int, list[int]], *, lost: int, failed: int) -> Moves:
    """Compare where turns were answered `before` upstream `lost` went, and in all."""
    lived = {number: homes[-1] for number, homes in before.items()}
    later = {number: homes[len(before.get(number, ())) :] for number, homes in after.items()}
    others = [number for number, home in lived.items() if home != lost and set(later[number]) - {home}]
    return Moves(
        conversations=len(after), lost=list(lived.values()).count(lost), others_moved=len(others), failed=failed
    )
