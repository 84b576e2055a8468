"""A gateway's end of links: what upstreams do over them, well or badly, and what HTTP is for where there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deepinfer.backends.remote.engine import RemoteEngine
from deepinfer.core import FinishReason, Grammar, ThinkingLimit, TokenLogprob
from deepinfer.errors import EngineError
from deepinfer.link import PROTOCOL
from deepinfer.link.frames import Kind
from deepinfer.link.messages import MAX_ANSWER_BYTES
from tests.engine.support import collect
from tests.gateway.link_peer import Linked, LinkHandler, LinkPeer, well
from tests.gateway.peer import END, Asked, gateway, listening, request

STOP = FinishReason.STOP


async def over_http(asked: Asked) -> None:
    asked.begin()
    asked.tokens(20, END, finish="stop")
    asked.end()


def peer_of(respond: LinkHandler = well, **fields: Any) -> LinkPeer:
    return LinkPeer(over_http, respond=respond, **fields)


async def failure_of(engine: RemoteEngine) -> EngineError:
    with pytest.raises(EngineError) as failure:
        async with asyncio.timeout(20):
            await collect(engine.submit(request()))
    return failure.value


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_request_and_its_answer_come_through() -> None:
    grammar, limit = Grammar(text="start: /a/", start_after=4, field="tools"), ThinkingLimit(tokens=9, end_token_id=4)
    asked = request("chat-1/0", sampling={"seed": 3, "top_k": 5}, grammar=grammar, thinking_limit=limit)
    async with listening(peer_of()) as peer, gateway(peer) as engine:
        outputs = [output async for output in engine.submit(asked)]
        assert engine.upstreams[0].way == "deepinfer over a link"
    assert [token_id for output in outputs for token_id in output.token_ids] == [10, 11, END]
    assert (outputs[-1].finish_reason, outputs[0].cached_tokens) == (STOP, 2)
    submit = peer.linked[0].submit
    assert (submit.request_id, submit.sampling, peer.linked[0].prompt) == ("chat-1/0", asked.sampling, [5, 6, 7])
    assert (submit.grammar, submit.thinking_limit) == (grammar, limit)
    opening = next(one for one in peer.asked if one.path.startswith("/v1/link"))
    assert (opening.path, opening.headers["upgrade"]) == ("/v1/link?model=tiny%2F%C3%A9", PROTOCOL)
    assert not peer.posts


async def test_all_requests_share_one_connection() -> None:
    async def slowly(asked: Linked) -> None:
        await asyncio.sleep(0.1)
        await well(asked)

    async with listening(peer_of(slowly)) as peer, gateway(peer, check_seconds=60) as engine:
        answers = await asyncio.gather(*(collect(engine.submit(request(f"r{number}"))) for number in range(50)))
        assert answers == [([10, 11, END], STOP)] * 50
        # One for the checks, and the link.
        assert (len(peer.links), peer.connections, len(peer.linked)) == (1, 2, 50)


async def silent(asked: Linked) -> None:
    """An upstream that is at work for long."""


@pytest.mark.parametrize(
    ("prompt", "sampling", "code"),
    [
        ([5, 2**40], {}, "invalid_token_id"),
        ([5, -1], {}, "invalid_token_id"),
        ([5, 129280], {}, "invalid_token_id"),
        ([], {}, "empty_prompt"),
        ([5], {"top_p": 2.0}, "invalid_sampling"),
        ([5] * 300_000, {}, "context_length_exceeded"),
    ],
)
async def test_what_cannot_run_is_refused_though_it_was_sent(
    prompt: list[int], sampling: dict[str, Any], code: str
) -> None:
    async with listening(peer_of(silent)) as peer, gateway(peer) as engine:
        with pytest.raises(EngineError) as failure:
            engine.submit(replace(request(sampling=sampling), token_ids=prompt))
        assert failure.value.code == code and failure.value.client_fault
        assert engine.health().running == engine.health().waiting == engine.upstreams[0].running == 0
        with pytest.raises(EngineError, match="in flight"):
            first = engine.submit(request())
            engine.submit(request())
        await first.aclose()
        # Whatever got there is ended there.
        await until(lambda: len(peer.linked) >= 2 and len(peer.told) == len(peer.linked))
        assert set(peer.told) == {(Kind.ABORT, asked.number) for asked in peer.linked}


async def test_log_probabilities_come_through() -> None:
    async def act(asked: Linked) -> None:
        asked.tokens(10, END, finish=STOP, logprobs=[(-0.5, ((10, -0.5), (11, -1.5), (12, -2.5))), (-1.0, ())])

    async with listening(peer_of(act)) as peer, gateway(peer) as engine:
        asked = request(sampling={"top_logprobs": 2})
        first = await anext(engine.submit(asked))
        assert first.logprobs == (TokenLogprob(-0.5, ((10, -0.5), (11, -1.5))), TokenLogprob(-1.0))
        assert (await anext(engine.submit(request("b")))).logprobs is None


async def ids_out_of_range(asked: Linked) -> None:
    asked.tokens(129280)


async def negative_ids(asked: Linked) -> None:
    asked.tokens(-1)


async def alternatives_out_of_range(asked: Linked) -> None:
    asked.tokens(10, logprobs=[(-1.0, ((2**40, -1.0),))])


async def too_few_logprobs(asked: Linked) -> None:
    asked.tokens(10, 11, logprobs=[(-1.0, ())])


async def garbage(asked: Linked) -> None:
    asked.send(Kind.OUTPUT, b"\xc1garbage")


async def deep(asked: Linked) -> None:
    asked.send(Kind.OUTPUT, b"\x91" * 100_000)


async def garbage_failure(asked: Linked) -> None:
    asked.send(Kind.FAILED, b"\xc1")


async def long_frame(asked: Linked) -> None:
    asked.send(Kind.OUTPUT, b"x" * (MAX_ANSWER_BYTES + 1))


async def endless_answer(asked: Linked) -> None:
    for _ in range(30):
        asked.tokens(*range(10, 20))


async def aborted(asked: Linked) -> None:
    asked.tokens(10, finish=FinishReason.ABORT)


async def refused(asked: Linked) -> None:
    asked.fail(400, "out_of_range", "top_k must be at least 1", "top_k")


async def refused_oddly(asked: Linked) -> None:
    asked.fail(418, "teapot", "no coffee")


async def unauthorized(asked: Linked) -> None:
    asked.fail(401, "invalid_api_key", "who are you?")


async def too_busy(asked: Linked) -> None:
    asked.fail(503, "engine_overloaded", "come back later")


async def broken_inside(asked: Linked) -> None:
    asked.tokens(10)
    asked.fail(500, "engine_failed", "engine dead")


async def lost_in_mid_answer(asked: Linked) -> None:
    asked.tokens(10)
    asked.writer.close()


async def garbage_in_mid_answer(asked: Linked) -> None:
    asked.tokens(10)
    await asyncio.sleep(0.05)
    asked.writer.write(b"HTTP/1.1 200 OK\r\n\r\n")


FAULTS: list[tuple[LinkHandler, str, str]] = [
    (ids_out_of_range, "upstream_failed", "129280"),
    (negative_ids, "upstream_failed", "token id"),
    (alternatives_out_of_range, "upstream_failed", "token id"),
    (too_few_logprobs, "upstream_failed", "2 tokens and not as many log probabilities"),
    (garbage, "upstream_failed", "cannot be read"),
    (deep, "upstream_failed", "cannot be read"),
    (garbage_failure, "upstream_failed", "cannot be read"),
    (long_frame, "upstream_failed", "too long"),
    (endless_answer, "upstream_failed", "more tokens than the 100"),
    (aborted, "upstream_failed", "abort"),
    (refused, "out_of_range", "top_k must be at least 1"),
    (refused_oddly, "upstream_refused", "no coffee"),
    (unauthorized, "upstream_failed", "upstream_api_key"),
    (too_busy, "engine_overloaded", "come back later"),
    (broken_inside, "upstream_failed", "engine dead"),
    (lost_in_mid_answer, "upstream_failed", "the connection broke off"),
    (garbage_in_mid_answer, "upstream_failed", "a frame of the kind"),
]
WITH_LOGPROBS = (alternatives_out_of_range, too_few_logprobs)
ENDING = (lost_in_mid_answer, garbage_in_mid_answer)


@pytest.mark.parametrize(("act", "code", "words"), FAULTS, ids=[act.__name__ for act, _, _ in FAULTS])
async def test_a_fault_ends_its_own_request(act: LinkHandler, code: str, words: str) -> None:
    async def choose(asked: Linked) -> None:
        await (act if asked.prompt == [5, 6, 7] else well)(asked)

    async with listening(peer_of(choose)) as peer, gateway(peer) as engine:
        other = asyncio.create_task(collect(engine.submit(request("b", prompt=(9,)))))
        with pytest.raises(EngineError) as failure:
            async with asyncio.timeout(20):
                await collect(engine.submit(request(sampling={"top_logprobs": 3} if act in WITH_LOGPROBS else {})))
        error = failure.value
        assert (error.code, error.client_fault) == (code, code in ("out_of_range", "upstream_refused"))
        assert words in str(error) and peer.origin.url in str(error)
        assert await other == ([10, 11, END], STOP)
        await until(lambda: engine.health().ready)
        # The same id may be used again, and the upstream too.
        assert (await collect(engine.submit(request("a", prompt=(9,)))))[1] is STOP
        assert engine.health().peers[0].running == 0
        assert len(peer.links) == 1 or act in ENDING


async def test_a_link_that_is_lost_before_the_answer_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def act(asked: Linked) -> None:
        asked.writer.close()

    async with listening(peer_of(act)) as peer, gateway(peer) as engine:
        answers = await asyncio.gather(*(collect(engine.submit(request(f"r{number}"))) for number in range(5)))
        assert answers == [([20, END], STOP)] * 5 and len(peer.posts) == 5
        # And there is another soon.
        await until(lambda: len(peer.links) == 2)
    assert "tried again" not in caplog.text and "left out" not in caplog.text


REFUSALS = {
    "unknown": b"HTTP/1.1 404 X\r\ncontent-length: 2\r\n\r\nno",
    "required": b"HTTP/1.1 426 X\r\nupgrade: deepinfer-link-99\r\ncontent-length: 0\r\n\r\n",
    "another": b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: deepinfer-link-99\r\n\r\n",
    "plain": b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok",
    "no http": b"220 mail.example ESMTP\r\n\r\n",
    "endless": b"HTTP/1.1 101 X\r\n" + b"x-filler: y\r\n" * 10_000,
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_where_there_is_no_link_http_is_the_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long before it would be given up for its silence.
    monkeypatch.setattr("deepinfer.backends.remote.link._OPEN_SECONDS", 60)
    async with asyncio.timeout(20), listening(peer_of(refusal=REFUSALS[name])) as peer, gateway(peer) as engine:
        assert await collect(engine.submit(request())) == ([20, END], STOP)
        assert engine.upstreams[0].way == "deepinfer"
        asked = len(peer.asked)
        await until(lambda: len(peer.asked) > asked + 3)
        # It is not asked for again, as long as the upstream is the same.
        assert sum(one.path.startswith("/v1/link") for one in peer.asked) == 1


async def test_a_way_that_swallows_the_offer_costs_some_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepinfer.backends.remote.link._OPEN_SECONDS", 0.2)
    async with listening(peer_of(refusal=b"")) as peer, gateway(peer) as engine:
        assert await collect(engine.submit(request())) == ([20, END], STOP)


async def test_a_link_whose_upstream_reads_slowly_makes_no_other_request_wait() -> None:
    async with listening(peer_of()) as peer, gateway(peer) as engine:
        link = engine.upstreams[0].link
        assert link is not None
        link.pause_writing()
        assert await collect(engine.submit(request())) == ([20, END], STOP)
        link.resume_writing()
        assert await collect(engine.submit(request())) == ([10, 11, END], STOP)


async def test_an_upstream_that_is_leaving_gets_no_more_and_finishes_what_it_has() -> None:
    async def act(asked: Linked) -> None:
        asked.tokens(10)
        asked.send(Kind.LEAVING, number=0)
        await asyncio.sleep(0.3)
        asked.tokens(END, finish=STOP)

    async with listening(peer_of(act)) as peer, gateway(peer, check_seconds=60) as engine:
        stream = engine.submit(request())
        assert (await anext(stream)).token_ids == (10,)
        await until(lambda: len(peer.links) == 2)
        peer.respond = well
        assert await collect(engine.submit(request("b"))) == ([10, 11, END], STOP)
        assert peer.linked[0].writer is not peer.linked[1].writer
        assert await collect(stream) == ([END], STOP)
        # Nothing is asked over the old one any more.
        await until(lambda: peer.lost == 1)


async def test_a_link_without_a_sign_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepinfer.backends.remote.link._SILENT_SECONDS", 1.0)

    async def alive(asked: Linked) -> None:
        for _ in range(5):
            asked.send(Kind.ALIVE, number=0)
            await asyncio.sleep(0.3)
        await well(asked)

    async with listening(peer_of(alive)) as peer, gateway(peer) as engine:
        assert await collect(engine.submit(request())) == ([10, 11, END], STOP)
        peer.respond = stall
        links = len(peer.links)
        # Nothing came of the answer, so it may be asked for over HTTP.
        assert await collect(engine.submit(request())) == ([20, END], STOP)
        await until(lambda: len(peer.links) > links)


async def test_frames_of_requests_that_are_not_there_are_passed_over() -> None:
    async def act(asked: Linked) -> None:
        for number in (asked.number + 1, 2**64 - 1):
            asked.send(Kind.OUTPUT, b"\xc1", number=number)
            asked.send(Kind.FAILED, b"\xc1", number=number)
        await well(asked)

    async with listening(peer_of(act)) as peer, gateway(peer) as engine:
        assert await collect(engine.submit(request())) == ([10, 11, END], STOP)
        assert len(peer.links) == 1


async def stall(asked: Linked) -> None:
    await asyncio.sleep(30)


async def stall_in_mid_answer(asked: Linked) -> None:
    asked.tokens(10)
    await asyncio.sleep(30)


async def signs_of_life(asked: Linked) -> None:
    for _ in range(100):
        asked.tokens(cached_tokens=1)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("act", "setting", "words"),
    [
        (stall, "first_token_seconds", "no token came in 0.3 s (timeout of the first token)"),
        (signs_of_life, "first_token_seconds", "no token came in 0.3 s (timeout of the first token)"),
        (stall_in_mid_answer, "token_seconds", "no token came in 0.3 s (timeout between tokens)"),
    ],
)
async def test_a_stall_is_named_and_ended(act: LinkHandler, setting: str, words: str) -> None:
    async with listening(peer_of(act)) as peer, gateway(peer, **{setting: 0.3}) as engine:
        error = await failure_of(engine)
        assert (error.code, words in str(error)) == ("upstream_timeout", True)
        await until(lambda: peer.told == [(Kind.ABORT, asked.number) for asked in peer.linked])


@pytest.mark.parametrize("leave", ["abort", "aclose", "drop"])
async def test_leaving_ends_the_request_at_the_upstream_and_no_other(leave: str) -> None:
    async with listening(peer_of(stall_in_mid_answer)) as peer, gateway(peer) as engine:
        other = engine.submit(request("b", prompt=(9,)))
        await anext(other)
        stream = engine.submit(request())
        await anext(stream)
        if leave == "abort":
            engine.abort("a")
            assert (await anext(stream)).finish_reason is FinishReason.ABORT
        elif leave == "aclose":
            await stream.aclose()
        del stream
        await until(lambda: peer.told == [(Kind.ABORT, peer.linked[1].number)])
        assert engine.health().peers[0].running == 1
        await other.aclose()
    assert len(peer.links) == 1


async def test_stopping_ends_streams() -> None:
    async with listening(peer_of(stall_in_mid_answer)) as peer:
        async with gateway(peer) as engine:
            stream = engine.submit(request())
            await anext(stream)
        assert (await anext(stream)).finish_reason is FinishReason.ABORT
        await until(lambda: peer.lost >= 1)


async def test_another_upstream_helps_before_the_first_token() -> None:
    async with listening(peer_of(too_busy)) as bad, listening(peer_of()) as good, gateway(bad, good) as engine:
        for number in range(4):
            answer = await collect(engine.submit(request(f"r{number}", prompt=(number + 20,))))
            assert answer == ([10, 11, END], STOP)
        assert bad.linked and len(good.linked) == 4


async def test_a_slow_reader_makes_its_request_wait_and_no_other() -> None:
    async def flood(asked: Linked) -> None:
        for _ in range(20):
            asked.tokens(*range(10, 110))
        # What was on its way still comes. Then it waits, longer than the timeout between tokens.
        await until(lambda: peer.told)
        asked.tokens(10)
        await until(lambda: (Kind.RESUME, asked.number) in peer.told)
        asked.tokens(END, finish=STOP)

    async def choose(asked: Linked) -> None:
        await (flood if asked.prompt == [5, 6, 7] else well)(asked)

    async with listening(peer_of(choose)) as peer, gateway(peer, token_seconds=1.0) as engine:
        stream = engine.submit(request(max_tokens=10_000))
        await until(lambda: peer.told)
        assert peer.told == [(Kind.PAUSE, 0)]
        assert await collect(engine.submit(request("b", prompt=(9,)))) == ([10, 11, END], STOP)
        await asyncio.sleep(1.5)
        assert peer.told == [(Kind.PAUSE, 0)]
        tokens, reason = await collect(stream)
        assert reason is STOP and len(tokens) > 2000
        assert peer.told == [(Kind.PAUSE, 0), (Kind.RESUME, 0)]


async def test_an_upstream_that_stalls_after_the_reader_caught_up_is_named() -> None:
    async def flood(asked: Linked) -> None:
        asked.tokens(*[10] * 1000)
        asked.tokens(*[10] * 1000)

    async with listening(peer_of(flood)) as peer, gateway(peer, token_seconds=0.2) as engine:
        stream = engine.submit(request(max_tokens=10_000))
        await until(lambda: peer.told)
        with pytest.raises(EngineError, match="between tokens"):
            await collect(stream)


async def test_what_no_frame_can_hold_is_the_requests_own_fault() -> None:
    async with listening(peer_of()) as peer, gateway(peer) as engine:
        with pytest.raises(OverflowError):
            engine.submit(request(sampling={"seed": 2**70}))
        assert await collect(engine.submit(request())) == ([10, 11, END], STOP)
        assert engine.health().peers[0].running == 0


async def test_an_upstream_that_comes_back_is_asked_over_a_new_link() -> None:
    peer = peer_of()
    async with listening(peer), gateway(peer) as engine:
        peer.is_healthy = False
        await until(lambda: not engine.health().ready)
        peer.is_healthy = True
        await until(lambda: engine.health().ready)
        assert await collect(engine.submit(request())) == ([10, 11, END], STOP)
        assert len(peer.links) == 2
