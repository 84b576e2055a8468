"""The one handler behind all generation paths: a body and a surface in, bytes out."""

from __future__ import annotations

from contextlib import ExitStack, aclosing
from typing import Protocol

from starlette.types import Receive, Scope, Send

from deepinfer.server.answer import Answer, Keep
from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import Exchange, exchange_of
from deepinfer.server.logging import log_exchange, log_text
from deepinfer.server.protocols import ProtocolName
from deepinfer.server.reading import read_whole_body
from deepinfer.server.responses.background import BackgroundRun
from deepinfer.server.responses.store.interface import StoredResponse
from deepinfer.server.services import Services
from deepinfer.server.stream import run_while_connected, send_events, send_json
from deepinfer.server.work import Work


class Surface(Protocol):
    """One kind of body. `protocol` is whose envelope its errors have, `packed` whether it may be MessagePack."""

    packed: bool

    @property
    def protocol(self) -> ProtocolName:
        """Name of the protocol."""

    async def read(self, body: bytes, client: str, services: Services) -> Work:
        """Read a body, in a thread if it is long. Raises `RequestError` or `HttpError`."""


class GenerateEndpoint:
    """Answers a request to generate, streaming or not, from one kind of body."""

    def __init__(self, services: Services, surface: Surface) -> None:
        self._services = services
        self._surface = surface

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange = exchange_of(scope)
        services = self._services
        with ExitStack() as held:
            held.enter_context(services.limits.admit(exchange.client))
            position = queue_position(services)
            body = await read_whole_body(scope, receive, services, packed=self._surface.packed)
            work = await self._surface.read(body, exchange.client, services)
            exchange.show_position(position)
            exchange.show_warnings(work.warnings)
            exchange.model = work.model
            if services.config.log_prompts:
                log_text(exchange, "prompt", work.prompt())
            if work.keeping is not None and work.keeping.background:
                run = await _start_in_background(services, exchange, work, held)
                sending = _show_run(run, work, services, send)
            else:
                exchange.prompt_tokens = work.prompt_tokens
                keeper = _Keeper(services, exchange, work)
                answer = _answer(services, exchange, work, keep=keeper.take if keeper.wants_answer else None)
                await answer.begin()
                sending = _send(answer, services, send)
            await run_while_connected(receive, sending)


def _answer(services: Services, exchange: Exchange, work: Work, *, keep: Keep | None = None) -> Answer:
    return Answer(
        services.engine,
        services.live,
        exchange,
        work,
        fingerprint=services.fingerprint,
        wait_seconds=services.config.keep_alive_seconds,
        keep=keep,
    )


async def _send(answer: Answer, services: Services, send: Send) -> None:
    if answer.work.stream:
        async with aclosing(answer.frames()) as frames:
            await send_events(send, frames, idle_seconds=services.config.send_idle_seconds)
    else:
        await send_json(send, await answer.whole())


async def _show_run(run: BackgroundRun, work: Work, services: Services, send: Send) -> None:
    if work.stream:
        async with aclosing(run.events(after=-1, wait_seconds=services.config.keep_alive_seconds)) as events:
            await send_events(send, events, idle_seconds=services.config.send_idle_seconds)
    else:
        await send_json(send, run.snapshot())


async def _start_in_background(services: Services, exchange: Exchange, work: Work, held: ExitStack) -> BackgroundRun:
    """Start a response that outlives its request, with a record of its own in log and metrics.

    The store knows of it before its client does, so that it is found, as a failed one, if the server ends too early.
    """
    own = Exchange(
        request_id=exchange.request_id,
        method=exchange.method,
        path=exchange.path,
        client=exchange.client,
        route=f"{exchange.path} (background)",
        model=work.model,
        prompt_tokens=work.prompt_tokens,
    )
    run = BackgroundRun(_answer(services, own, work), _Keeper(services, own, work).put_run)
    why = await services.responses.put(exchange.client, run.placeholder())
    if why is not None:
        exchange.add_warning(why)
    services.metrics.open_request()
    for call in (held.pop_all().close, lambda: services.metrics.report(own), lambda: log_exchange(own)):
        run.on_end(call)
    services.responses.add_run(exchange.client, run)
    run.start()
    return run


class _Keeper:
    """Takes a finished answer, before its client has it all: kept responses can be gone on from at once."""

    def __init__(self, services: Services, exchange: Exchange, work: Work) -> None:
        self._services = services
        self._exchange = exchange
        self._work = work

    @property
    def wants_answer(self) -> bool:
        """Whether anything is to be done with the answer."""
        return self._services.config.log_prompts or (self._work.keeping is not None and self._work.keeping.store)

    async def take(self, body: bytes) -> bytes:
        """Log and keep the answer, as far as that is asked for. Returns what its stream says of that."""
        self._log(body)
        keeping = self._work.keeping
        if keeping is None or not keeping.store:
            return b""
        response = StoredResponse(id=self._work.answer_id, body=body, input_items=keeping.input_items)
        return self._shown(await self._services.responses.put(self._exchange.client, response))

    async def put_run(self, response: StoredResponse) -> None:
        """Keep what was made in the background."""
        self._log(response.body)
        self._shown(await self._services.responses.put_run(self._exchange.client, response))

    def _shown(self, why: str | None) -> bytes:
        """Tell client and log why the answer could not be kept, in a header or, once that is out, in a comment."""
        if why is None:
            return b""
        self._exchange.add_warning(why)
        return f": {why}\n\n".encode()

    def _log(self, body: bytes) -> None:
        if self._services.config.log_prompts:
            log_text(self._exchange, "answer", body.decode())


def queue_position(services: Services) -> int:
    """How many sequences wait already. Raises a 503 (Messages: 529) if they are too many."""
    waiting = services.engine.health().waiting
    if waiting >= services.config.max_waiting:
        message = f"{waiting} requests are waiting already, and the limit is {services.config.max_waiting}; try again"
        raise HttpError(503, "engine_overloaded", message, headers={"retry-after": "1"})
    return waiting
