"""The client against real servers: what it times, counts and repeats, and what it does when it is not answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deepinfer.bench.answers import Protocol
from deepinfer.bench.client import Client, Reply
from deepinfer.bench.processes import MODEL, Server, metrics, upstream, upstream_of
from deepinfer.bench.traffic import Traffic

DELAY = 0.01


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A scripted upstream, number 3."""
    folder: Path = tmp_path_factory.mktemp("bench")
    with upstream(folder, 3, delay_seconds=DELAY, length_scale=0.2) as started:
        yield started


@pytest.mark.parametrize("place", range(3))
async def test_a_conversation_is_cached_to_the_last_token_of_its_answers(server: Server, place: int) -> None:
    traffic = Traffic(5, MODEL, scale=0.1)
    conversation = [traffic.conversation() for _ in Protocol][place]
    client = Client(server.url)
    known = 0
    for turn in range(3):
        reply = await client.ask(conversation.protocol, conversation.body())
        answer = reply.answer()
        assert (reply.status, reply.broken, answer.finished, answer.error) == (200, False, True, None)
        assert upstream_of(answer.text) == 3
        assert len(answer.call_ids) == 1
        if turn:
            assert answer.cached_tokens == known
        # The last token of an answer is never computed.
        known = answer.prompt_tokens + answer.completion_tokens - 1
        words = sum(count for _, count in reply.marks)
        assert 15 < words < answer.completion_tokens
        assert reply.first is not None and reply.sent + DELAY < reply.first < reply.ended
        gaps = list(reply.gaps(reply.sent, reply.ended))
        assert 15 < len(gaps) < words and sorted(gaps)[len(gaps) // 2] >= DELAY / 2
        conversation.advance(answer)
    client.close()


async def test_one_who_leaves_hangs_up_and_the_server_ends_the_answer(server: Server) -> None:
    client = Client(server.url)
    conversation = Traffic(6, MODEL, scale=0.1).conversation()
    reply = await client.ask(conversation.protocol, conversation.body(), leave_after=2)
    assert (reply.status, reply.broken, reply.answer().finished) == (200, True, False)
    while (await asyncio.to_thread(metrics, server.url))["deepinfer_running"]:
        await asyncio.sleep(0.01)


async def test_a_refusal_is_a_reply(server: Server) -> None:
    client = Client(server.url)
    for _ in range(2):
        reply = await client.ask(Protocol.CHAT, b"{")
        assert (reply.status, reply.broken, reply.first) == (400, False, None)
    client.close()


@asynccontextmanager
async def fake(*answers: bytes) -> AsyncIterator[str]:
    """A server that gives one answer to each request, cut into packets at `|`; it hangs up for an empty one."""
    left = list(answers)
    closing = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        closing.append(writer)
        while left:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            if not (answer := left.pop(0)):
                break
            for packet in answer.split(b"|"):
                writer.write(packet)
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    async with listening:
        yield f"http://{host}:{port}"
    for writer in closing:
        writer.close()
        await writer.wait_closed()


def chunked(stream: bytes) -> bytes:
    """An answer with `stream`, one chunk for each packet."""
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in stream.split(b"|")]
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"|".join(chunks) + b"0\r\n\r\n"


def delta(content: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % content.encode()


async def test_events_count_once_wherever_packets_cut_them() -> None:
    stream = delta("a") + delta("b") + b"|" + delta("c").replace(b"content", b"con|tent") + b"|" + delta("")
    async with fake(chunked(stream)) as url:
        reply = await Client(url).ask(Protocol.CHAT, {})
    assert [count for _, count in reply.marks] == [2, 1]
    gaps = list(reply.gaps(0.0, reply.ended))
    assert gaps[0] == 0.0 and 0.05 < gaps[1] < 5
    assert reply.answer().text == "abc"


def test_no_gap_is_taken_over_a_call_nor_outside_of_the_window() -> None:
    reply = Reply(Protocol.CHAT, marks=[(1.0, 1), (2.0, 3), (4.0, 0), (8.0, 1), (9.5, 1), (20.0, 1)])
    assert list(reply.gaps(0.0, 10.0)) == [1.0, 0.0, 0.0, 1.5]
    assert list(reply.gaps(2.0, 9.5)) == [1.0, 0.0, 0.0]


async def test_a_cut_answer_is_broken() -> None:
    async with fake(chunked(delta("a"))[:-10]) as url:
        reply = await Client(url).ask(Protocol.CHAT, {})
    assert (reply.status, reply.broken) == (200, True)


async def test_bytes_that_are_no_http_are_a_broken_reply() -> None:
    async with fake(b"\x16\x03\x01\x00 no\r\n\r\n") as url:
        reply = await Client(url).ask(Protocol.CHAT, {})
    assert (reply.status, reply.broken) == (0, True)


async def test_a_request_that_meets_a_closing_connection_is_sent_once_more() -> None:
    async with fake(chunked(delta("a")), b"", chunked(delta("b"))) as url:
        client = Client(url)
        texts = [(await client.ask(Protocol.CHAT, {})).answer().text for _ in range(2)]
    assert texts == ["a", "b"]


async def test_a_new_connection_that_brings_nothing_is_a_broken_reply() -> None:
    async with fake(b"", chunked(delta("a"))) as url:
        reply = await Client(url).ask(Protocol.CHAT, {})
    assert (reply.status, reply.broken, reply.answer().text) == (0, True, "")


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:1", "http://", "http://127.0.0.1:1/v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no address of the form"):
        Client(url)
