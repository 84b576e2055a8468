"""Kept responses of one server: found by their ids and those of their items, and made in the background.

Owns the runs in the background, and the threads in which the store is asked: one that hangs holds up nothing else. What
the store does not take is lost to `previous_response_id`, never to the client that asked for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from deepinfer.server.errors import HttpError
from deepinfer.server.responses.background import BackgroundRun
from deepinfer.server.responses.items import find_item, response_id_of
from deepinfer.server.responses.store.interface import ResponseStore, StoredResponse, StoreError

_REFERENCE: Final = "item_reference"
_THREADS: Final = 4
# How long anything waits for a thread before it is not tried any more.
_QUEUE_SECONDS: Final = 5
# Well within the time after which an unfinished response counts as interrupted.
_RENEW_SECONDS: Final = 5
# Answers of the background that wait for the store to take them.
_MOST_UNSTORED: Final = 100

P = ParamSpec("P")
T = TypeVar("T")
Lookup = Callable[[str], "bytes | dict[str, Any] | None"]

logger: Final = logging.getLogger(__name__)


class StoreNeededError(Exception):
    """A request names something that is kept; it has to be read where the store may be asked."""


class Responses:
    """The responses of all clients; each sees its own."""

    def __init__(self, store: ResponseStore | None, *, on_loss: Callable[[], object]) -> None:
        self._store = store
        self._on_loss = on_loss
        self._runs: dict[tuple[str, str], BackgroundRun] = {}
        self._unstored: dict[tuple[str, str], StoredResponse] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="store")

    @property
    def can_store(self) -> bool:
        """Whether anything is kept."""
        return self._store is not None

    async def put(self, client: str, response: StoredResponse) -> str | None:
        """Keep a response. Returns why it could not be kept, in one line; raises nothing, as the answer is well."""
        assert self._store is not None
        try:
            await self._in_thread(self._store.put, client, response)
            return None
        except StoreError as error:
            why = str(error)
            logger.error("the response %s was not stored: %s", response.id, why)
        except Exception:
            why = "the store failed; the server's log says why"
            logger.exception("the response %s was not stored", response.id)
        self._on_loss()
        return f"the response was not stored: {' '.join(why.split())}"

    async def put_run(self, client: str, response: StoredResponse) -> str | None:
        """Keep what was made in the background; its client has nothing else to find it by, so it is tried again."""
        # From now on, as it counts as finished, and not only when the store has said what becomes of it.
        self._unstored[client, response.id] = response
        why = await self.put(client, response)
        if why is None:
            self._unstored.pop((client, response.id), None)
        while len(self._unstored) > _MOST_UNSTORED:
            del self._unstored[next(iter(self._unstored))]
        return why

    async def get(self, client: str, response_id: str) -> StoredResponse:
        """Find a response that is not made here. Raises a 404 or a 503."""
        found = await self._ask(self._find, client, response_id)
        if found is None:
            raise not_stored(response_id)
        return found

    async def delete(self, client: str, response_id: str) -> None:
        """Forget a finished response. Raises a 404, or a 503."""
        assert self._store is not None
        deleted = await self._ask(self._store.delete, client, response_id)
        if self._unstored.pop((client, response_id), None) is None and not deleted:
            raise not_stored(response_id)

    def run(self, client: str, response_id: str) -> BackgroundRun | None:
        """Find a response that is being made in the background."""
        return self._runs.get((client, response_id))

    def add_run(self, client: str, run: BackgroundRun) -> None:
        """Note a run until it has ended."""
        key = (client, run.id)
        self._runs[key] = run
        run.on_end(lambda: self._runs.pop(key, None))

    async def look_after_runs(self) -> None:
        """Go on for ever: tell the store what is still being made, and offer it again what it did not take."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await self._tell_store()

    async def aclose(self) -> None:
        """Wait until all that is made in the background is finished, then let go of the store."""
        while self._runs:
            await next(iter(self._runs.values())).wait()
        await self._tell_store()
        self._threads.shutdown()
        if self._store is not None:
            self._store.close()

    async def with_lookup(self, client: str, read: Callable[[Lookup | None], T]) -> T:
        """Let `read` ask for responses and items of this client, as the codec does. Raises a 503."""
        return await self._ask(read, self._lookup(client))

    def needed(self) -> Lookup | None:
        """What raises `StoreNeededError` when it is asked; None where nothing is kept."""

        def refuse(id: str) -> None:
            raise StoreNeededError

        return None if self._store is None else refuse

    def _lookup(self, client: str) -> Lookup | None:
        if self._store is None:
            return None

        def find(id: str) -> bytes | dict[str, Any] | None:
            is_response = id.startswith("resp_")
            response_id = id if is_response else response_id_of(id)
            response = None if response_id is None else self._find(client, response_id)
            if response is None or response.unfinished:
                return None
            if not is_response:
                return find_item(response, id)
            return b'{"input":%b,%b' % (_without_references(response, find), response.body[1:])

        return find

    def _find(self, client: str, response_id: str) -> StoredResponse | None:
        unstored = self._unstored.get((client, response_id))
        # Ids are made here, and plain; not every database takes any other text.
        if unstored is not None or self._store is None or not (response_id.isascii() and response_id.isprintable()):
            return unstored
        return self._store.get(client, response_id)

    async def _tell_store(self) -> None:
        keys = [*self._runs, *self._unstored]
        if self._store is None or not keys:
            return
        try:
            await self._in_thread(self._store.renew, keys)
            for key, response in list(self._unstored.items()):
                await self._in_thread(self._store.put, key[0], response)
                self._unstored.pop(key, None)
        except Exception as error:
            logger.warning("responses made in the background still wait for their store: %s", error)

    async def _ask(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await self._in_thread(call, *arguments, **named)
        except StoreError as error:
            message = f"the store of responses does not answer: {error}"
            raise HttpError(503, "store_unavailable", message, headers={"retry-after": "5"}) from None

    async def _in_thread(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        limit = time.monotonic() + _QUEUE_SECONDS

        def work() -> T:
            # While the store hangs, what has piled up is not tried one after the other.
            if time.monotonic() > limit:
                raise StoreError("it is too slow for the work that waits for it")
            return call(*arguments, **named)

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _without_references(response: StoredResponse, find: Lookup) -> bytes:
    """The input of a response, with the items that it only named."""
    if _REFERENCE.encode() not in response.input_items:
        return response.input_items
    items: list[Any] = msgspec.json.decode(response.input_items)
    named = [item.get("id") if isinstance(item, dict) and item.get("type") == _REFERENCE else None for item in items]
    found = [item if name is None else find(name) for item, name in zip(items, named, strict=True)]
    return msgspec.json.encode([item for item in found if isinstance(item, dict)])


def not_stored(response_id: str) -> HttpError:
    """The refusal of an id under which this client has nothing."""
    message = f"no response is kept under the id {response_id[:100]!r}; it may have been deleted or never stored"
    return HttpError(404, "not_stored", message, param="response_id")
