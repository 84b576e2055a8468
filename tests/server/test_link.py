"""A link's connection in this process, with an engine, a clock and a gateway that dawdle as real ones rarely do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deepinfer.backends.scripted import Script, ScriptedEngine
from deepinfer.core import Engine, FinishReason, SamplingParams, StepOutput
from deepinfer.errors import EngineError
from deepinfer.link.frames import ANSWERING, Frame, FrameReader, Kind, frame
from deepinfer.link.ids import ids_to_bytes
from deepinfer.link.messages import Failed, Submit, pack, read_failure, read_output
from deepinfer.server.config import ServerConfig
from deepinfer.server.link.connection import LinkConnection
from deepinfer.server.services import Services, build_services
from tests.server.test_application import MODEL, FailingEngine

SUBMIT = frame(Kind.SUBMIT, 1, pack(Submit("req-7", ids_to_bytes([5, 6]), SamplingParams(max_tokens=4000))))


@dataclass
class Gateway:
    """A gateway's end."""

    services: Services
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    frames: FrameReader
    connections: set[Any]

    async def read(self) -> list[Frame]:
        """What comes next; empty at the end."""
        async with asyncio.timeout(20):
            while data := await self.reader.read(1 << 16):
                if found := self.frames.feed(data):
                    return found
        return []

    async def failure(self) -> Failed:
        while found := await self.read():
            for one in found:
                if one.kind == Kind.FAILED:
                    return read_failure(one.payload or b"")
        raise AssertionError("the link was closed")


@asynccontextmanager
async def link(engine: Engine, **settings: Any) -> AsyncIterator[Gateway]:
    await engine.start()
    services = build_services(engine, ServerConfig(model_names=("m",), **settings), None)
    connections: set[Any] = set()

    def connect() -> LinkConnection:
        connection = LinkConnection(services, lambda: "anyone", "m", connections)
        connections.add(connection)
        return connection

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(server.sockets[0].getsockname())
    reader, writer = await asyncio.open_connection(sock=plain, limit=4096)
    try:
        yield Gateway(services, reader, writer, FrameReader(ANSWERING, 1 << 20), connections)
    finally:
        writer.close()
        server.close()


def replaying(*, count: int = 4000, delay: float = 0.0) -> ScriptedEngine:
    return ScriptedEngine(lambda _: Script(token_ids=(7,) * count, delay_seconds=delay), MODEL)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "status", "code", "words"),
    [
        (
            EngineError("bad grammar", code="grammar_dead_end", client_fault=True, field="tools"),
            400,
            "grammar_dead_end",
            "bad",
        ),
        (EngineError("no more", code="engine_overloaded"), 503, "engine_overloaded", "no more"),
        (EngineError("dead", code="engine_failed"), 500, "engine_failed", "dead"),
        (ZeroDivisionError("a detail"), 500, "internal_error", "the server failed"),
    ],
)
@pytest.mark.parametrize("fails_at", [0, 2])
async def test_what_an_engine_fails_with_is_told(
    error: Exception, status: int, code: str, words: str, fails_at: int
) -> None:
    async with link(FailingEngine(error, fails_at=fails_at)) as gateway:
        gateway.writer.write(SUBMIT)
        failed = await gateway.failure()
        assert (failed.status, failed.code, failed.field) == (status, code, getattr(error, "field", None))
        assert words in failed.message and "a detail" not in failed.message
        assert f'status="{200 if fails_at else status}"' in gateway.services.metrics.render().decode()


async def test_a_frame_that_does_not_go_on_ends_its_link() -> None:
    async with link(replaying(count=3), body_idle_seconds=1.0) as gateway:
        # Between frames there is no haste.
        await asyncio.sleep(1.2)
        gateway.writer.write(SUBMIT)
        assert (await gateway.read())[0].kind == Kind.OUTPUT
        for byte in SUBMIT[:8]:
            # Slow, but it goes on.
            gateway.writer.write(bytes([byte]))
            await asyncio.sleep(0.2)
        assert gateway.connections
        await until(lambda: not gateway.connections)


async def test_life_is_shown_where_there_is_nothing_to_say() -> None:
    async with link(replaying(count=3, delay=0.08), keep_alive_seconds=0.05) as gateway:
        gateway.writer.write(SUBMIT)
        kinds = [one.kind for _ in range(12) for one in await gateway.read()]
        # Before the first token, between tokens, and behind the last.
        assert kinds.count(Kind.OUTPUT) == 3
        first, last = kinds.index(Kind.OUTPUT), len(kinds) - kinds[::-1].index(Kind.OUTPUT)
        assert Kind.ALIVE in kinds[:first] and Kind.ALIVE in kinds[last:]
    async with link(replaying(count=100, delay=0.01), keep_alive_seconds=0.5) as gateway:
        gateway.writer.write(SUBMIT)
        kinds = [one.kind for _ in range(50) for one in await gateway.read()]
        assert kinds.count(Kind.ALIVE) <= 2


async def test_who_does_not_read_makes_the_engine_wait_and_counts_as_gone() -> None:
    engine = ScriptedEngine(lambda _: Script(token_ids=(7,) * 400_000), replace(MODEL, context_length=1_000_000))
    async with link(engine, send_idle_seconds=1.0) as gateway:
        long = Submit("req-7", ids_to_bytes([5, 6]), SamplingParams(max_tokens=400_000))
        gateway.writer.write(frame(Kind.SUBMIT, 1, pack(long)))
        await until(lambda: gateway.connections)
        connection = next(iter(gateway.connections))
        await until(lambda: connection.is_full)
        # No more than sockets hold, and nothing more while they are full.
        place = replay_place(engine)
        await asyncio.sleep(0.3)
        assert replay_place(engine) == place < 350_000
        assert engine.health().running == 1
        await until(lambda: not gateway.connections and not engine.health().running)


def replay_place(engine: ScriptedEngine) -> int:
    return next(iter(engine._replays.values()))._place


async def test_who_reads_late_gets_all() -> None:
    async with link(replaying()) as gateway:
        gateway.writer.write(SUBMIT)
        await asyncio.sleep(0.5)
        count = 0
        while count < 4000:
            for one in await gateway.read():
                count += len(read_output(one.payload or b"").token_ids)
        assert count == 4000
        await until(lambda: not gateway.services.engine.health().running)


class Recorder:
    """A transport that keeps what is written."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_what_comes_in_one_turn_goes_out_in_one_write() -> None:
    async with link(replaying(count=1, delay=0.05)) as gateway:
        await until(lambda: gateway.connections)
        connection = next(iter(gateway.connections))
        writes: list[bytes] = []
        connection._transport = Recorder(connection._transport, writes)
        submits = [SUBMIT[:5] + number.to_bytes(8, "little") + SUBMIT[13:] for number in range(1, 30)]
        gateway.writer.write(b"".join(submits))
        await until(lambda: sum(len(FrameReader(ANSWERING, 1 << 20).feed(data)) for data in writes) == 29)
        assert len(writes) <= 5


async def test_a_first_token_waits_for_nothing() -> None:
    async with link(replaying()) as gateway:
        await until(lambda: gateway.connections)
        connection = next(iter(gateway.connections))
        writes: list[bytes] = []
        connection._transport = Recorder(connection._transport, writes)
        connection.send_output(1, StepOutput(token_ids=(5,)), is_first=False)
        assert not writes
        connection.send_output(2, StepOutput(token_ids=(6,)), is_first=True)
        # And what waits before it comes before it.
        assert [numbers(data) for data in writes] == [[1, 2]]
        # Others of the same turn go together.
        connection.send_output(3, StepOutput(token_ids=(7,)), is_first=True)
        connection.send_output(4, StepOutput(token_ids=(8,)), is_first=True)
        assert len(writes) == 1
        await until(lambda: len(writes) == 2)
        assert numbers(writes[1]) == [3, 4]
        connection.send_output(5, StepOutput(token_ids=(9,)), is_first=True)
        assert [numbers(data) for data in writes] == [[1, 2], [3, 4], [5]]
        await asyncio.sleep(0.05)
        assert len(writes) == 3


def numbers(data: bytes) -> list[int]:
    """Whose frames these are."""
    return [one.number for one in FrameReader(ANSWERING, 1 << 20).feed(data)]


async def test_a_request_that_is_ended_before_its_first_turn_is_counted() -> None:
    async with link(replaying(delay=1.0)) as gateway:
        gateway.writer.write(SUBMIT + frame(Kind.ABORT, 1))
        line = 'deepinfer_requests_total{route="/v1/link",status="200"} 1.0'
        await until(lambda: line in gateway.services.metrics.render().decode())
        assert "deepinfer_http_requests_in_flight 0.0" in gateway.services.metrics.render().decode()
        await until(lambda: not gateway.services.engine.health().running)


async def test_an_answer_that_is_paused_behind_its_end_ends() -> None:
    async with link(replaying(count=1, delay=0.05)) as gateway:
        await until(lambda: gateway.connections)
        # As the socket's buffer is full just then, and the gateway's reader slow.
        next(iter(gateway.connections)).is_full = True
        gateway.writer.write(SUBMIT + frame(Kind.PAUSE, 1))
        assert read_output((await gateway.read())[0].payload or b"").finish_reason is FinishReason.STOP
        await until(lambda: "http_requests_in_flight 0.0" in gateway.services.metrics.render().decode())


async def test_an_answer_that_is_paused_waits() -> None:
    async with link(replaying()) as gateway:
        gateway.writer.write(SUBMIT + frame(Kind.PAUSE, 1))
        seen = len(await gateway.read())
        await asyncio.sleep(0.2)
        assert gateway.services.engine.health().running == 1
        gateway.writer.write(frame(Kind.RESUME, 1))
        while seen < 4000:
            seen += len(await gateway.read())
        await until(lambda: not gateway.services.engine.health().running)
