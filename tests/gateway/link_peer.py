"""A peer that takes links, and answers over them as a test tells it to: well, badly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from deepinfer.core import FinishReason
from deepinfer.link import PROTOCOL
from deepinfer.link.frames import ASKING, FrameReader, Kind, frame
from deepinfer.link.ids import ids_from_bytes
from deepinfer.link.messages import Failed, Output, Submit, pack, read_submit
from tests.gateway.peer import END, Asked, Peer

SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {PROTOCOL}\r\n\r\n".encode()


@dataclass
class Linked:
    """One request that came over a link, and the way to answer it."""

    number: int
    submit: Submit
    prompt: list[int]
    writer: asyncio.StreamWriter

    def send(self, kind: Kind, payload: bytes = b"", *, number: int | None = None) -> None:
        self.writer.write(frame(kind, self.number if number is None else number, payload))

    def tokens(self, *ids: int, finish: FinishReason | None = None, **fields: Any) -> None:
        self.send(Kind.OUTPUT, pack(Output(ids, finish, **fields)))

    def fail(self, status: int, code: str, message: str, field: str | None = None) -> None:
        self.send(Kind.FAILED, pack(Failed(status, code, message, field)))


LinkHandler = Callable[[Linked], Awaitable[None]]


async def well(asked: Linked) -> None:
    asked.tokens(10, 11, cached_tokens=2)
    asked.tokens(END, finish=FinishReason.STOP)


@dataclass
class LinkPeer(Peer):
    """`respond` answers what comes over links; `refusal` is written in place of the switch."""

    respond: LinkHandler = well
    refusal: bytes | None = None
    models: list[dict[str, Any]] = field(
        default_factory=lambda: [{"id": "tiny/é", "owned_by": "deepinfer", "max_model_len": 300_000}]
    )
    linked: list[Linked] = field(default_factory=list)
    told: list[tuple[Kind, int]] = field(default_factory=list)
    links: list[asyncio.StreamWriter] = field(default_factory=list)
    readers: dict[asyncio.StreamWriter, asyncio.StreamReader] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def posts(self) -> list[Asked]:
        """The requests to generate that came over HTTP."""
        return [asked for asked in self.asked if asked.method == "POST"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.readers[writer] = reader
        await super().serve(reader, writer)

    async def handle(self, asked: Asked) -> None:
        if asked.method == "POST":
            # In MessagePack.
            await self.generate(asked)
        elif not asked.path.startswith("/v1/link"):
            await super().handle(asked)
        elif self.refusal is not None:
            asked.send(self.refusal)
        else:
            asked.send(SWITCH)
            self.links.append(asked.writer)
            await self.read_frames(self.readers[asked.writer], asked.writer)

    async def read_frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(ASKING, 1 << 24)
        while data := await reader.read(1 << 18):
            for one in frames.feed(data):
                if one.kind != Kind.SUBMIT:
                    self.told.append((Kind(one.kind), one.number))
                    continue
                assert one.payload is not None
                submit = read_submit(one.payload)
                asked = Linked(one.number, submit, ids_from_bytes(submit.ids).tolist(), writer)
                self.linked.append(asked)
                self.tasks.append(asyncio.ensure_future(self.respond(asked)))
        raise asyncio.IncompleteReadError(b"", None)
