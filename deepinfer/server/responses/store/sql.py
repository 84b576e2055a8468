"""Responses in a database that several servers may share.

The order of `place` is that of age. The table of totals is kept in step with every change, so that no put has to count.
An unfinished response names its maker, who renews it; it counts as interrupted when the maker has ended, or was silent
for too long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from deepinfer.server.responses.store.database import Cursor, Database
from deepinfer.server.responses.store.interface import Limits, StoredResponse, Usage
from deepinfer.server.responses.store.interrupted import as_interrupted
from deepinfer.server.responses.store.makers import has_ended, new_maker

# How long an unfinished response counts as being made after its maker's last sign of life.
LEASE_SECONDS: Final = 30
_BATCH: Final = 100
# Responses that one put removes at most; what is still too much goes with the next ones.
_MOST_REMOVED: Final = 1000

_COLUMNS: Final = "body, input_items, events, maker"


@dataclass(frozen=True, slots=True)
class _Row:
    """A response as it was found; `silent` says that its maker has not renewed it in time."""

    response: StoredResponse
    maker: str | None
    silent: bool

    @property
    def is_orphan(self) -> bool:
        return self.maker is not None and (self.silent or has_ended(self.maker))


class SqlResponseStore:
    """The rules; the database knows its dialect and its faults."""

    def __init__(self, database: Database, limits: Limits) -> None:
        """Take over a database, and end what was left unfinished in it. Raises `StoreError`."""
        self._database = database
        self._limits = limits
        self._maker = new_maker()
        self._now = database.now
        self._fresh = "TRUE" if limits.max_age is None else f"kept > {self._now} - {limits.max_age!r}"
        self._usage = database.run(self._begin, write=True)

    @property
    def usage(self) -> Usage:
        """What was kept when this server last wrote."""
        return self._usage

    def put(self, owner: str, response: StoredResponse) -> None:
        """Keep a response. Raises `StoreError`."""
        self._limits.check_fits(response)
        self._usage = self._database.run(lambda cursor: self._put(cursor, owner, response), write=True)

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Find a response. Raises `StoreError`."""
        row = self._database.run(lambda cursor: self._find(cursor, owner, response_id), write=False)
        if row is not None and row.is_orphan:
            row = self._database.run(lambda cursor: self._interrupt(cursor, owner, response_id), write=True)
        return None if row is None else row.response

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response. Raises `StoreError`."""

        def forget(cursor: Cursor) -> bool:
            found = self._find(cursor, owner, response_id) is not None
            self._usage = self._remove(cursor, "owner = ? AND id = ?", owner, response_id)
            return found

        return self._database.run(forget, write=True)

    def renew(self, keys: Iterable[tuple[str, str]]) -> None:
        """Say that unfinished responses are still being made here. Raises `StoreError`."""

        def sign(cursor: Cursor) -> None:
            for owner, response_id in keys:
                cursor.execute(
                    f"UPDATE deepinfer_responses SET alive_until = {self._now} + {LEASE_SECONDS} "
                    "WHERE owner = ? AND id = ? AND maker = ?",
                    (owner, response_id, self._maker),
                )

        self._database.run(sign, write=True)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _begin(self, cursor: Cursor) -> Usage:
        unfinished = cursor.execute("SELECT owner, id FROM deepinfer_responses WHERE maker IS NOT NULL").fetchall()
        for owner, response_id in unfinished:
            self._interrupt(cursor, owner, response_id)
        return self._make_room(cursor, _totals(cursor), incoming=Usage(0, 0))

    def _put(self, cursor: Cursor, owner: str, response: StoredResponse) -> Usage:
        usage = self._remove(cursor, "owner = ? AND id = ?", owner, response.id)
        self._make_room(cursor, usage, incoming=Usage(1, response.size))
        events = None if response.events is None else msgspec.msgpack.encode(response.events)
        maker = self._maker if response.unfinished else None
        cursor.execute(
            f"INSERT INTO deepinfer_responses (owner, id, size, kept, alive_until, {_COLUMNS}) "
            f"VALUES (?, ?, ?, {self._now}, {self._now} + {LEASE_SECONDS}, ?, ?, ?, ?)",
            (owner, response.id, response.size, response.body, response.input_items, events, maker),
        )
        return _add(cursor, 1, response.size)

    def _make_room(self, cursor: Cursor, usage: Usage, *, incoming: Usage) -> Usage:
        """Remove the oldest until `incoming` fits, and what is too old. Unfinished ones stay while they are made."""
        finished = f"(maker IS NULL OR alive_until < {self._now})"
        for _ in range(_MOST_REMOVED // _BATCH):
            oldest = cursor.execute(
                f"SELECT place, size, {self._fresh} FROM deepinfer_responses WHERE {finished} "
                f"ORDER BY place LIMIT {_BATCH if self._limits.is_over(_sum(usage, incoming)) else 1}"
            ).fetchall()
            left, last = usage, None
            for place, size, fresh in oldest:
                if fresh and not self._limits.is_over(_sum(left, incoming)):
                    break
                left, last = Usage(left.responses - 1, left.bytes - size), place
            if last is None:
                break
            usage = self._remove(cursor, f"place <= ? AND {finished}", last)
        return usage

    def _remove(self, cursor: Cursor, condition: str, *parameters: object) -> Usage:
        sizes = cursor.execute(f"DELETE FROM deepinfer_responses WHERE {condition} RETURNING size", parameters)
        removed = [size for (size,) in sizes.fetchall()]
        return _add(cursor, -len(removed), -sum(removed)) if removed else _totals(cursor)

    def _find(self, cursor: Cursor, owner: str, response_id: str) -> _Row | None:
        row = cursor.execute(
            f"SELECT {_COLUMNS}, alive_until < {self._now} FROM deepinfer_responses "
            f"WHERE owner = ? AND id = ? AND {self._fresh}",
            (owner, response_id),
        ).fetchone()
        return None if row is None else _read(response_id, *row)

    def _interrupt(self, cursor: Cursor, owner: str, response_id: str) -> _Row | None:
        """End a response that its maker will not end, if that is still so; return it as it is now."""
        row = self._find(cursor, owner, response_id)
        if row is None or not row.is_orphan:
            return row
        failed = as_interrupted(row.response)
        cursor.execute(
            "UPDATE deepinfer_responses SET body = ?, size = ?, maker = NULL WHERE owner = ? AND id = ?",
            (failed.body, failed.size, owner, response_id),
        )
        self._usage = _add(cursor, 0, failed.size - row.response.size)
        return _Row(failed, None, False)


def _read(response_id: str, body: bytes, input_items: bytes, events: bytes | None, maker: Any, silent: Any) -> _Row:
    response = StoredResponse(
        id=response_id,
        body=body,
        input_items=input_items,
        events=None if events is None else msgspec.msgpack.decode(events, type=tuple[bytes, ...]),
        unfinished=maker is not None,
    )
    return _Row(response, maker, bool(silent))


def _totals(cursor: Cursor) -> Usage:
    return Usage(*cursor.execute("SELECT responses, bytes FROM deepinfer_totals").fetchone())


def _add(cursor: Cursor, count: int, size: int) -> Usage:
    statement = "UPDATE deepinfer_totals SET responses = responses + ?, bytes = bytes + ? RETURNING responses, bytes"
    (row,) = cursor.execute(statement, (count, size)).fetchall()
    return Usage(*row)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(one.responses + other.responses, one.bytes + other.bytes)
