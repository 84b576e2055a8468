"""What a store of responses is asked, whatever it keeps them in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class StoreError(Exception):
    """The store cannot do what it was asked. The message names the store, and says why and what to do."""


class UnwritableError(StoreError):
    """The place of the store cannot be written."""


class Usage(NamedTuple):
    """How many responses are kept, and the bytes of them together."""

    responses: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is kept: responses, bytes of them together, seconds of each (None is no limit). The oldest go first."""

    max_count: int
    max_bytes: int
    max_age: float | None = None

    def is_over(self, usage: Usage) -> bool:
        """Whether something has to go."""
        return usage.responses > self.max_count or usage.bytes > self.max_bytes

    def check_fits(self, response: StoredResponse) -> None:
        """Raise `StoreError` for a response that is too large even alone."""
        if response.size > self.max_bytes:
            raise StoreError(
                f"it takes {response.size} bytes, and all that is kept may take {self.max_bytes} together "
                "(--stored-response-bytes)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response: its object as JSON, the items it answered as a JSON array, and its events if they may be read again.

    `events` has one server-sent event per item; the place of an event is its `sequence_number`. An `unfinished`
    response is still being made, and only stands for what will be put in its place.
    """

    id: str
    body: bytes = field(repr=False)
    input_items: bytes = field(repr=False)
    events: tuple[bytes, ...] | None = field(default=None, repr=False)
    unfinished: bool = False

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.id) + len(self.body) + len(self.input_items) + sum(map(len, self.events or ()))


class ResponseStore(Protocol):
    """Responses of several owners, who never see each other's.

    Methods may block for seconds, may be called from any thread, and raise `StoreError`.
    """

    @property
    def usage(self) -> Usage:
        """What was kept when this server last wrote. Never blocks."""

    def put(self, owner: str, response: StoredResponse) -> None:
        """Keep a response, in place of an earlier state of it."""

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Find a response. One whose maker has ended without finishing it is a failed one."""

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; whether there was one."""

    def renew(self, keys: Iterable[tuple[str, str]]) -> None:
        """Say that the unfinished responses of these owners and ids are still being made here."""

    def close(self) -> None:
        """Let go of files and connections."""
