"""Upstreams that fail, lie, stall and die: each costs its own request an error, and nothing else anything."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from deepinfer.backends.remote.engine import RemoteEngine
from deepinfer.core import FinishReason, StepOutput
from deepinfer.errors import EngineError
from tests.engine.support import collect
from tests.gateway.peer import END, Asked, Handler, Peer, gateway, listening, request

Act = Callable[[Asked], Awaitable[None]]


async def well(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10, 11)
    asked.tokens(END, finish="stop")
    asked.event({"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}})
    asked.end()


async def outputs_of(engine: RemoteEngine, request_id: str = "a") -> list[StepOutput]:
    async with asyncio.timeout(20):
        return [output async for output in engine.submit(request(request_id))]


async def failure_of(engine: RemoteEngine, request_id: str = "a") -> EngineError:
    with pytest.raises(EngineError) as failure:
        await outputs_of(engine, request_id)
    return failure.value


async def test_tokens_end_and_cost_come_through() -> None:
    async with listening(Peer(well)) as peer, gateway(peer) as engine:
        outputs = await outputs_of(engine)
        assert [token_id for output in outputs for token_id in output.token_ids] == [10, 11, END]
        assert [output.finish_reason for output in outputs][-1] is FinishReason.STOP
        assert [output.cached_tokens for output in outputs if output.cached_tokens is not None] == [2]
        health = engine.health()
        assert (health.ready, health.running, health.waiting) == (True, 0, 0)


async def test_what_arrives_together_is_one_output() -> None:
    async def act(asked: Asked) -> None:
        asked.begin()
        events = b"".join(
            b"data: " + json.dumps({"choices": [{"token_ids": [token_id]}]}).encode() + b"\n\n"
            for token_id in range(20)
        )
        asked.chunk(events)
        await asked.writer.drain()
        await asyncio.sleep(0.05)
        asked.tokens(END, finish="stop")
        asked.end()

    async with listening(Peer(act)) as peer, gateway(peer) as engine:
        outputs = await outputs_of(engine)
        assert outputs[0].token_ids == tuple(range(20))


async def garbage(asked: Asked) -> None:
    asked.begin()
    asked.chunk(b"data: {not json\n\n")


async def wrong_types(asked: Asked) -> None:
    asked.begin()
    asked.event({"choices": [{"token_ids": "abc"}]})


async def no_object(asked: Asked) -> None:
    asked.begin()
    asked.event([1, 2, 3])


async def deep(asked: Asked) -> None:
    asked.begin()
    asked.chunk(b'data: {"x": ' + b"[" * 200_000 + b"\n\n")


async def not_utf8(asked: Asked) -> None:
    asked.begin()
    asked.chunk(b'data: {"choices": [{"text": "\xff", "token_ids": [1], "finish_reason": "\xfe"}]}\n\n')


async def ids_out_of_range(asked: Asked) -> None:
    asked.begin()
    asked.tokens(129280)


async def negative_ids(asked: Asked) -> None:
    asked.begin()
    asked.tokens(-1)


async def huge_ids(asked: Asked) -> None:
    asked.begin()
    asked.tokens(2**70)


async def no_ids(asked: Asked) -> None:
    asked.begin()
    asked.event({"choices": [{"text": "words"}]})


async def endless_event(asked: Asked) -> None:
    asked.begin()
    asked.chunk(b"data: ")
    for _ in range(40):
        asked.chunk(b"x" * 65536)
        await asked.writer.drain()


async def endless_answer(asked: Asked) -> None:
    asked.begin()
    for _ in range(1000):
        asked.tokens(*range(10, 20))
        await asked.writer.drain()


async def early_end(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10)
    asked.end()


async def half_a_stream(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10)
    asked.writer.close()


async def tokens_after_the_end(asked: Asked) -> None:
    asked.begin()
    asked.tokens(END, finish="stop")
    asked.tokens(10)
    asked.end()


async def aborted(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10, finish="abort")
    asked.end()


async def error_event(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10)
    asked.event({"error": {"message": "out of memory", "code": 500}})
    asked.end()


async def plain_json(asked: Asked) -> None:
    asked.answer({"choices": [{"text": "all at once", "token_ids": [1]}]})


async def no_http(asked: Asked) -> None:
    asked.send(b"220 mail.example ESMTP\r\n")


async def endless_head(asked: Asked) -> None:
    asked.send(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100):
        asked.send(b"x-filler: " + b"y" * 4096 + b"\r\n")
        await asked.writer.drain()


async def redirect(asked: Asked) -> None:
    asked.send(b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")


async def two_answers(asked: Asked) -> None:
    asked.send(b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n" * 2)


async def unauthorized(asked: Asked) -> None:
    asked.answer({"error": {"message": "who are you?"}}, status=401)


async def wrong_bias(asked: Asked) -> None:
    asked.answer({"error": {"message": "logit_bias is bad", "code": 400, "param": "logit_bias"}}, status=400)


async def too_busy(asked: Asked) -> None:
    asked.answer({"detail": "come back later"}, status=429)


async def broken_inside(asked: Asked) -> None:
    asked.answer({"error": "engine dead"}, status=500)


FAULTS: list[tuple[Handler, str, str]] = [
    (garbage, "upstream_failed", "cannot be read"),
    (wrong_types, "upstream_failed", "cannot be read"),
    (no_object, "upstream_failed", "cannot be read"),
    (deep, "upstream_failed", "cannot be read"),
    (not_utf8, "upstream_failed", "cannot be read"),
    (ids_out_of_range, "upstream_failed", "129280"),
    (negative_ids, "upstream_failed", "token id"),
    (huge_ids, "upstream_failed", "token id"),
    (no_ids, "upstream_failed", "no token ids"),
    (endless_event, "upstream_failed", "too long"),
    (endless_answer, "upstream_failed", "more tokens than the 100"),
    (early_end, "upstream_failed", "without saying why"),
    (half_a_stream, "upstream_failed", "broke off"),
    (tokens_after_the_end, "upstream_failed", "after the end"),
    (aborted, "upstream_failed", "abort"),
    (error_event, "upstream_failed", "out of memory"),
    (plain_json, "upstream_failed", "did not stream"),
    (no_http, "upstream_failed", "not HTTP"),
    (endless_head, "upstream_failed", "head of the answer"),
    (redirect, "upstream_failed", "redirects"),
    (two_answers, "upstream_failed", "HTTP"),
    (unauthorized, "upstream_failed", "upstream_api_key"),
    (wrong_bias, "upstream_refused", "logit_bias is bad"),
    (too_busy, "engine_overloaded", "come back later"),
    (broken_inside, "upstream_failed", "engine dead"),
]


@pytest.mark.parametrize(("act", "code", "words"), FAULTS, ids=[act.__name__ for act, _, _ in FAULTS])
async def test_a_fault_ends_its_own_request(act: Handler, code: str, words: str) -> None:
    async def choose(asked: Asked) -> None:
        await (act if asked.json["prompt"] == [5, 6, 7] else well)(asked)

    async with listening(Peer(choose)) as peer, gateway(peer) as engine:
        other = asyncio.create_task(collect(engine.submit(request("b", prompt=(9,)))))
        error = await failure_of(engine)
        assert error.code == code
        assert words in str(error) and peer.origin.url in str(error)
        assert error.client_fault == (code == "upstream_refused")
        assert await other == ([10, 11, END], FinishReason.STOP)
        while not engine.health().ready:
            await asyncio.sleep(0.02)
        # The same id may be used again, and the upstream too.
        assert await collect(engine.submit(request("a", prompt=(9,)))) == ([10, 11, END], FinishReason.STOP)
        assert engine.health().peers[0].running == 0


async def stall(asked: Asked) -> None:
    await asyncio.sleep(30)


async def stall_in_mid_answer(asked: Asked) -> None:
    asked.begin()
    asked.tokens(10)
    await asyncio.sleep(30)


async def chatty_stall(asked: Asked) -> None:
    asked.begin()
    for _ in range(300):
        asked.chunk(b": keep-alive\n\n")
        await asked.writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("act", "setting", "words"),
    [
        (stall, "first_token_seconds", "no token came in 0.3 s (timeout of the first token)"),
        (chatty_stall, "first_token_seconds", "no token came in 0.3 s (timeout of the first token)"),
        (stall_in_mid_answer, "token_seconds", "no token came in 0.3 s (timeout between tokens)"),
    ],
)
async def test_a_stall_is_named(act: Handler, setting: str, words: str) -> None:
    async with listening(Peer(act)) as peer, gateway(peer, **{setting: 0.3}) as engine:
        error = await failure_of(engine)
        assert (error.code, peer.origin.url in str(error), words in str(error)) == ("upstream_timeout", True, True)


async def test_an_end_without_its_last_words_is_an_end() -> None:
    async def act(asked: Asked) -> None:
        asked.begin()
        asked.tokens(10, END, finish="stop")
        await asyncio.sleep(30)

    async with listening(Peer(act)) as peer, gateway(peer, token_seconds=0.2) as engine:
        assert await collect(engine.submit(request())) == ([10, END], FinishReason.STOP)


@pytest.mark.parametrize("act", [broken_inside, too_busy, no_http, plain_json, stall])
async def test_another_upstream_helps_before_the_first_token(act: Handler) -> None:
    async with (
        listening(Peer(act)) as bad,
        listening(Peer(well)) as good,
        gateway(bad, good, first_token_seconds=1.0) as engine,
    ):
        for number in range(4):
            answer = await collect(engine.submit(request(f"r{number}", prompt=(number + 20,))))
            assert answer == ([10, 11, END], FinishReason.STOP)
        assert bad.generated and len(good.generated) == 4


async def test_after_the_first_token_there_is_no_other_try() -> None:
    async with listening(Peer(half_a_stream)) as bad, listening(Peer(half_a_stream)) as other:
        async with gateway(bad, other) as engine:
            stream = engine.submit(request())
            assert (await anext(stream)).token_ids == (10,)
            with pytest.raises(EngineError, match="broke off"):
                await anext(stream)
            assert len(bad.generated) + len(other.generated) == 1


async def test_a_request_at_fault_is_not_tried_elsewhere() -> None:
    async with listening(Peer(wrong_bias)) as first, listening(Peer(wrong_bias)) as second:
        async with gateway(first, second) as engine:
            assert (await failure_of(engine)).field == "logit_bias"
            assert len(first.generated) + len(second.generated) == 1


async def test_tries_end() -> None:
    async with listening(Peer(broken_inside)) as peer, gateway(peer) as engine:
        await failure_of(engine)
        assert len(peer.generated) == 2


async def test_a_dead_upstream_is_left_out_until_it_is_back() -> None:
    second = Peer(well)
    async with listening(Peer(well)) as first:
        async with listening(second):
            engine = gateway(first, second)
            running = await engine.__aenter__()
        try:
            while running.health().peers[1].ready:
                second.is_healthy = False
                await asyncio.sleep(0.02)
            for number in range(4):
                await outputs_of(running, f"r{number}")
            assert "is left out" not in running.health().detail and second.origin.url in running.health().detail
            assert running.health().ready
            second.is_healthy = True
            async with listening(second):
                while not running.health().peers[1].ready:
                    await asyncio.sleep(0.02)
        finally:
            await engine.__aexit__(None, None, None)


async def test_without_any_upstream_requests_are_told_so_at_once() -> None:
    async with listening(Peer(well)) as peer, gateway(peer) as engine:
        peer.is_healthy = False
        while engine.health().ready:
            await asyncio.sleep(0.02)
        with pytest.raises(EngineError) as refused:
            engine.submit(request())
        assert refused.value.code == "upstream_unreachable"


async def test_start_names_what_is_wrong_with_each() -> None:
    gone = Peer(well, port=1)
    async with listening(Peer(well, models=[])) as empty:
        with pytest.raises(EngineError) as failure:
            async with gateway(gone, empty):
                pass
    assert "127.0.0.1:1" in str(failure.value) and "does not list models" in str(failure.value)


async def test_leaving_closes_the_connection_and_frees_the_id() -> None:
    async with listening(Peer(stall_in_mid_answer)) as peer, gateway(peer) as engine:
        for leave in ("abort", "aclose", "drop"):
            stream = engine.submit(request())
            await anext(stream)
            lost = peer.lost
            if leave == "abort":
                engine.abort("a")
                assert (await anext(stream)).finish_reason is FinishReason.ABORT
            elif leave == "aclose":
                await stream.aclose()
            del stream
            async with asyncio.timeout(20):
                while engine.health().running or engine.health().peers[0].running:
                    await asyncio.sleep(0.01)
            assert peer.lost >= lost


@pytest.mark.parametrize("leaves", [False, True])
async def test_prompts_are_let_go_of_without_the_garbage_collector(leaves: bool) -> None:
    async def act(asked: Asked) -> None:
        asked.begin()
        asked.tokens(10)
        if not leaves:
            asked.tokens(END, finish="stop")
            asked.end()

    prompt = array("I", [5, 6, 7])
    kept = weakref.ref(prompt)
    async with listening(Peer(act)) as peer, gateway(peer) as engine, uncollected():
        stream = engine.submit(replace(request("a"), token_ids=prompt))
        del prompt
        async for output in stream:
            if leaves and output.token_ids:
                break
        await stream.aclose()
        del stream, output
        while kept() is not None:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def uncollected() -> AsyncIterator[None]:
    """Nothing but the last reference frees an object meanwhile; waits in it end after some seconds."""
    gc.disable()
    try:
        async with asyncio.timeout(20):
            yield
    finally:
        gc.enable()


async def test_a_request_that_ends_at_once_leaves_nothing_behind() -> None:
    async with listening(Peer(stall_in_mid_answer)) as peer, gateway(peer) as engine, uncollected():
        # Both over a connection that is open already, and over one that is still to be opened.
        await engine.upstreams[0].client.fetch("GET", "/health", seconds=5)
        for _ in range(2):
            prompt = array("I", [5, 6, 7])
            kept = weakref.ref(prompt)
            stream = engine.submit(replace(request("a"), token_ids=prompt))
            engine.abort("a")
            assert (await anext(stream)).finish_reason is FinishReason.ABORT
            del prompt, stream
            while kept() is not None or engine.health().peers[0].running:
                await asyncio.sleep(0.01)


async def test_stopping_ends_streams() -> None:
    async with listening(Peer(stall_in_mid_answer)) as peer:
        async with gateway(peer) as engine:
            stream = engine.submit(request())
            await anext(stream)
        assert (await anext(stream)).finish_reason is FinishReason.ABORT


async def test_a_slow_reader_makes_its_upstream_wait_and_nobody_else() -> None:
    sent = 0

    async def flood(asked: Asked) -> None:
        nonlocal sent
        asked.begin()
        for _ in range(20_000):
            asked.tokens(*range(10, 20), text="x" * 1000)
            sent += 10
            await asked.writer.drain()
        asked.tokens(END, finish="stop")
        asked.end()

    async def choose(asked: Asked) -> None:
        await (flood if asked.json["prompt"] == [5, 6, 7] else well)(asked)

    big = {"context_length": 300_000, "token_seconds": 1.0}
    async with listening(Peer(choose)) as peer, gateway(peer, **big) as engine:
        stream = engine.submit(request(max_tokens=250_000))
        await anext(stream)
        for number in range(20):
            assert (await collect(engine.submit(request(f"b{number}", prompt=(9,)))))[1] is FinishReason.STOP
        before = -1
        # Until all buffers on the way are full, for longer than the timeout between tokens.
        while sent > before:
            before = sent
            await asyncio.sleep(1.5)
        assert sent < 200_000
        rest, reason = await collect(stream)
        assert (reason, rest[-1]) == (FinishReason.STOP, END)
        assert sent == 200_000


async def test_connections_are_used_again() -> None:
    async with listening(Peer(well)) as peer, gateway(peer, check_seconds=60) as engine:
        for number in range(10):
            await outputs_of(engine, f"r{number}")
        assert peer.connections == 1


async def test_a_connection_that_is_closed_just_then_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    used: set[object] = set()

    async def act(asked: Asked) -> None:
        if asked.writer in used:
            # As servers do after some seconds of silence: the request and the end of the connection cross.
            asked.writer.close()
        else:
            used.add(asked.writer)
            await well(asked)

    async with listening(Peer(act)) as peer, gateway(peer, check_seconds=60) as engine:
        for number in range(10):
            assert (await outputs_of(engine, f"r{number}"))[-1].finish_reason is FinishReason.STOP
        assert len(peer.generated) > 10
    assert "tried again" not in caplog.text and "left out" not in caplog.text


class Careless(Peer):
    """Closes a connection under the second check of its health, and each further one."""

    async def handle(self, asked: Asked) -> None:
        if asked.path == "/health" and any(one.writer is asked.writer for one in self.asked[:-1]):
            asked.writer.close()
        else:
            await super().handle(asked)


async def test_a_check_over_a_connection_that_is_closed_just_then_finds_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(Careless(well)) as peer, gateway(peer, check_seconds=0.01) as engine, asyncio.timeout(20):
        while sum(asked.path == "/health" for asked in peer.asked) < 10:
            await asyncio.sleep(0.01)
            assert engine.health().ready
    assert "left out" not in caplog.text


async def test_a_fault_that_a_check_finds_is_soon_looked_at_again() -> None:
    async with listening(Peer(well)) as peer, gateway(peer, check_seconds=60) as engine, asyncio.timeout(20):
        upstream = engine.upstreams[0]
        peer.is_healthy = False
        await upstream.check()
        assert not engine.health().ready
        peer.is_healthy = True
        while not engine.health().ready:
            await asyncio.sleep(0.01)
