"""Kept responses of one server: found by their ids and those of their items, and made in the background.

Owns the runs in the background; the store owns what is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from deepinfer.server.errors import HttpError
from deepinfer.server.responses.background import BackgroundRun
from deepinfer.server.responses.items import find_item, response_id_of
from deepinfer.server.responses.store import ResponseStore, StoredResponse

_REFERENCE: Final = "item_reference"

Lookup = Callable[[str], "bytes | dict[str, Any] | None"]


class Responses:
    """The responses of all clients; each sees its own."""

    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store
        self._runs: dict[tuple[str, str], BackgroundRun] = {}

    @property
    def can_store(self) -> bool:
        """Whether anything is kept."""
        return self._store is not None

    def put(self, client: str, response: StoredResponse) -> None:
        """Keep a finished response; may block."""
        assert self._store is not None
        self._store.put(client, response)

    def get(self, client: str, response_id: str) -> StoredResponse:
        """Find a finished response; may block. Raises a 404."""
        found = None if self._store is None else self._store.get(client, response_id)
        if found is None:
            raise not_stored(response_id)
        return found

    def delete(self, client: str, response_id: str) -> None:
        """Forget a finished response; may block. Raises a 404."""
        if self._store is None or not self._store.delete(client, response_id):
            raise not_stored(response_id)

    def run(self, client: str, response_id: str) -> BackgroundRun | None:
        """Find a response that is being made in the background."""
        return self._runs.get((client, response_id))

    def add_run(self, client: str, run: BackgroundRun) -> None:
        """Note a run until it has ended."""
        key = (client, run.id)
        self._runs[key] = run
        run.on_end(lambda: self._runs.pop(key, None))

    async def wait_for_runs(self) -> None:
        """Wait until all that is made in the background is finished."""
        while self._runs:
            await next(iter(self._runs.values())).wait()

    def lookup(self, client: str) -> Lookup | None:
        """What the codec asks for a response or an item of this client; None where nothing is kept."""
        store = self._store
        if store is None:
            return None

        def find(id: str) -> bytes | dict[str, Any] | None:
            is_response = id.startswith("resp_")
            response_id = id if is_response else response_id_of(id)
            response = None if response_id is None else store.get(client, response_id)
            if response is None:
                return None
            if not is_response:
                return find_item(response, id)
            return b'{"input":%b,%b' % (_without_references(response, find), response.body[1:])

        return find


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
