"""Paths of responses that are kept: retrieve, delete, cancel, input items."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import exchange_of
from deepinfer.server.responses.background import BackgroundRun
from deepinfer.server.responses.items import Item, input_items
from deepinfer.server.responses.store.interface import StoredResponse
from deepinfer.server.responses.store.interrupted import is_interrupted, last_event
from deepinfer.server.services import Services
from deepinfer.server.small_answers import json_response
from deepinfer.server.stream import run_while_connected, send_events

_MAX_PAGE: Final = 100


class StoredResponses:
    """The handlers; each client finds its own responses only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def retrieve(self, request: Request) -> Response:
        """The response object as it stands, or with `stream=true` its events again from `starting_after` on."""
        run, stored = await self._find(request)
        if _switch(request.query_params, "stream"):
            after = _number(request.query_params, "starting_after", default=-1, least=-1, most=2**53)
            return _Replay(self._services, run, stored, after)
        return json_response(run.snapshot() if run is not None else _body(stored))

    async def delete(self, request: Request) -> Response:
        """Forget a response; one that is being made ends first."""
        client, response_id = _whose(request)
        run = self._services.responses.run(client, response_id)
        if run is not None:
            run.cancel()
            await run.wait()
        elif (await self._services.responses.get(client, response_id)).unfinished:
            raise _made_elsewhere("it can be deleted")
        await self._services.responses.delete(client, response_id)
        return json_response({"id": response_id, "object": "response.deleted", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        """End a response that is made in the background; one that has ended stays as it is."""
        run, stored = await self._find(request)
        if run is None:
            assert stored is not None
            if stored.unfinished:
                raise _made_elsewhere("it can be cancelled")
            if not msgspec.json.decode(stored.body)["background"]:
                message = "only responses that were created with background: true can be cancelled"
                raise HttpError(400, "not_cancellable", message, param="response_id")
            return json_response(stored.body)
        run.cancel()
        await run.wait()
        return json_response(run.snapshot())

    async def list_input(self, request: Request) -> Response:
        """The items that the request gave, page by page."""
        run, stored = await self._find(request)
        if run is not None:
            stored = StoredResponse(id=run.id, body=b"", input_items=run.input_items)
        assert stored is not None
        items = await asyncio.to_thread(input_items, stored)
        return json_response(_page(items, request.query_params))

    async def _find(self, request: Request) -> tuple[BackgroundRun | None, StoredResponse | None]:
        """The run or the finished response of an id. Raises a 404."""
        client, response_id = _whose(request)
        run = self._services.responses.run(client, response_id)
        if run is not None:
            return run, None
        return None, await self._services.responses.get(client, response_id)


class _Replay(Response):
    """The events of a response again."""

    def __init__(
        self, services: Services, run: BackgroundRun | None, stored: StoredResponse | None, after: int
    ) -> None:
        super().__init__()
        self._services = services
        self._run = run
        self._after = after
        self._stored = stored
        if run is None and stored is not None and stored.unfinished:
            raise _made_elsewhere("its events can be read")
        if not (run.keeps_events if run is not None else stored is not None and stored.events is not None):
            message = "stream: the events of this response are not kept; create it with background and stream"
            raise HttpError(400, "events_not_kept", message, param="stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await run_while_connected(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        config = self._services.config
        if self._stored is not None:
            frames = _once(_events_after(self._stored, self._after))
        else:
            assert self._run is not None
            frames = self._run.events(after=self._after, wait_seconds=config.keep_alive_seconds)
        async with aclosing(frames):
            await send_events(send, frames, idle_seconds=config.send_idle_seconds)


def _events_after(stored: StoredResponse, number: int) -> bytes:
    if is_interrupted(stored):
        return last_event(stored, number + 1)
    return b"".join((stored.events or ())[number + 1 :])


async def _once(data: bytes) -> Any:
    yield data


def _whose(request: Request) -> tuple[str, str]:
    return exchange_of(request.scope).client, request.path_params["response_id"]


def _body(stored: StoredResponse | None) -> bytes:
    assert stored is not None
    return stored.body


def _made_elsewhere(what: str) -> HttpError:
    message = f"another server that shares this store is making the response; {what} there, or here when it has ended"
    return HttpError(409, "made_elsewhere", message, param="response_id")


def _page(items: list[Item], query: QueryParams) -> dict[str, object]:
    limit = _number(query, "limit", default=20, least=1, most=_MAX_PAGE)
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise HttpError(400, "unknown_value", f"order must be one of asc, desc, not {order[:100]!r}", param="order")
    if order == "desc":
        items = items[::-1]
    after = query.get("after")
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise HttpError(400, "not_stored", f"after: there is no item {after[:100]!r}", param="after")
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > limit,
    }


def _number(query: QueryParams, name: str, *, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    # A long row of digits is no number that anybody means.
    if len(text) > 20 or not text.removeprefix("-").isdecimal() or not least <= int(text) <= most:
        message = f"{name} must be a whole number from {least} to {most}, not {text[:100]!r}"
        raise HttpError(400, "out_of_range", message, param=name)
    return int(text)


def _switch(query: QueryParams, name: str) -> bool:
    text = query.get(name, "false")
    if text.lower() not in ("true", "false"):
        raise HttpError(400, "invalid_type", f"{name} must be true or false, not {text[:100]!r}", param=name)
    return text.lower() == "true"
