"""A peer that speaks raw HTTP as a test tells it to: well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.engine import RemoteEngine
from deepinfer.backends.remote.http_client import Origin
from deepinfer.core import Request, SamplingParams

VOCABULARY = 129280
END = 1


@dataclass
class Asked:
    """One request that came in, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def answer(self, content: Any, *, status: int = 200) -> None:
        """A whole JSON body."""
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.send(head.encode() + body)

    def begin(self) -> None:
        """The head of a stream."""
        self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, content: Any) -> None:
        self.chunk(b"data: " + json.dumps(content).encode() + b"\n\n")

    def tokens(self, *ids: int, finish: str | None = None, text: str = "x") -> None:
        """Token ids as vLLM sends them."""
        self.event({"choices": [{"index": 0, "text": text, "token_ids": list(ids), "finish_reason": finish}]})

    def end(self) -> None:
        """The end of a stream."""
        self.chunk(b"data: [DONE]\n\n")
        self.send(b"0\r\n\r\n")


Handler = Callable[[Asked], Awaitable[None]]


@dataclass
class Peer:
    """`generate` answers what is asked to generate in a stream; all else is answered as vLLM would.

    Without `intersections` it fails at grammars that have some, as vLLM does with xgrammar.
    Of other `kind`s are "text", which gives no ids, "words", which takes none either, and "sglang".
    """

    generate: Handler
    grammars: bool = False
    intersections: bool = True
    kind: str = "ids"
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    is_healthy: bool = True
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "tiny", "max_model_len": 4096}])
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    lost: int = 0

    @property
    def origin(self) -> Origin:
        return Origin(self.host, self.port, self.tls is not None, "")

    @property
    def generated(self) -> list[Asked]:
        """The requests to generate in a stream."""
        return [asked for asked in self.asked if asked.method == "POST" and asked.json.get("stream")]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                method, path, _ = first.split(" ")
                headers = dict(line.split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(method, path, headers, body, writer)
                self.asked.append(asked)
                await self.handle(asked)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.lost += 1
        finally:
            writer.close()

    async def handle(self, asked: Asked) -> None:
        if asked.path == "/v1/models":
            asked.answer({"data": self.models})
        elif asked.path == "/health":
            asked.answer({}, status=200 if self.is_healthy else 503)
        elif asked.json.get("stream"):
            await self.generate(asked)
        else:
            self.generate_one(asked)

    def generate_one(self, asked: Asked) -> None:
        """Answer a probe."""
        body = asked.json
        if asked.path == "/generate" and self.kind == "sglang":
            held = "ebnf" in body["sampling_params"] and self.grammars
            asked.answer({"output_ids": [1000 if held else 5], "meta_info": {"completion_tokens": 1}})
        elif asked.path != "/v1/completions" or self.kind == "sglang":
            asked.answer({"error": "no such path"}, status=404)
        elif "structured_outputs" in body and not self.grammars and self.kind == "ids":
            asked.answer({"error": {"message": "no such grammar", "code": 400}}, status=400)
        elif " & " in body.get("structured_outputs", {}).get("grammar", "") and not self.intersections:
            asked.answer({"error": {"message": "Internal server error", "code": 500}}, status=500)
        elif self.kind == "words" and not isinstance(body["prompt"], str):
            asked.answer({"error": {"message": "prompt must be a string"}}, status=422)
        else:
            ids = {"token_ids": [1000]} if self.kind == "ids" else {}
            asked.answer({"choices": [{"text": "x", **ids}]})


AnyPeer = TypeVar("AnyPeer", bound=Peer)


@asynccontextmanager
async def listening(peer: AnyPeer) -> AsyncIterator[AnyPeer]:
    """A peer on a free port."""
    server = await asyncio.start_server(peer.serve, peer.host, peer.port, ssl=peer.tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()


def config(*peers: Peer, **fields: Any) -> RemoteConfig:
    """Settings of a gateway in front of peers, with short timeouts."""
    settings: dict[str, Any] = {
        "name": "tiny",
        "recipe_version": "v4.1",
        "vocabulary_size": VOCABULARY,
        "connect_seconds": 2.0,
        "first_token_seconds": 5.0,
        "token_seconds": 5.0,
        "check_seconds": 0.1,
        "spell": lambda ids: " ".join(map(str, ids)),
        **fields,
    }
    return RemoteConfig(upstreams=tuple(peer.origin for peer in peers), **settings)


@asynccontextmanager
async def gateway(*peers: Peer, **fields: Any) -> AsyncIterator[RemoteEngine]:
    """A started gateway in front of peers."""
    engine = RemoteEngine(config(*peers, **fields))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def request(
    request_id: str = "a", *, prompt: tuple[int, ...] = (5, 6, 7), max_tokens: int = 100, **fields: Any
) -> Request:
    """A request with the usual end of an answer."""
    sampling = SamplingParams(max_tokens=max_tokens, stop_token_ids=(END,), **fields.pop("sampling", {}))
    return Request(request_id=request_id, token_ids=prompt, sampling=sampling, **fields)
