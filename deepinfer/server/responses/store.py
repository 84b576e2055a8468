"""Where finished responses are kept. What `previous_response_id` and retrieval need, and nothing of HTTP."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response: its object as JSON, the items it answered as a JSON array, and its events if they may be read again.

    `events` has one server-sent event per item; the place of an event is its `sequence_number`.
    """

    id: str
    body: bytes = field(repr=False)
    input_items: bytes = field(repr=False)
    events: tuple[bytes, ...] | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.id) + len(self.body) + len(self.input_items) + sum(map(len, self.events or ()))


class ResponseStore(Protocol):
    """Responses of several owners, who never see each other's. Methods may block, and may be called from any thread."""

    def put(self, owner: str, response: StoredResponse) -> None:
        """Keep a response, in place of an earlier state of it."""

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Find a response."""

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; whether there was one."""


class MemoryResponseStore:
    """Responses in memory: at most `max_count`, of at most `max_bytes` together. The oldest are forgotten first."""

    def __init__(self, *, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._responses: OrderedDict[tuple[str, str], StoredResponse] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def put(self, owner: str, response: StoredResponse) -> None:
        """Keep a response if it fits at all."""
        with self._lock:
            self._forget((owner, response.id))
            if response.size > self._max_bytes:
                return
            self._responses[owner, response.id] = response
            self._bytes += response.size
            while len(self._responses) > self._max_count or self._bytes > self._max_bytes:
                self._forget(next(iter(self._responses)))

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Find a response."""
        with self._lock:
            return self._responses.get((owner, response_id))

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response."""
        with self._lock:
            return self._forget((owner, response_id))

    def _forget(self, key: tuple[str, str]) -> bool:
        response = self._responses.pop(key, None)
        if response is not None:
            self._bytes -= response.size
        return response is not None
