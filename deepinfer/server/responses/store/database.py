"""What the store asks of a database, and how its tables come to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from deepinfer.server.responses.store.interface import StoreError

T = TypeVar("T")


class Cursor(Protocol):
    """Runs statements whose parameters are written as `?`."""

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Self:
        """Run one statement."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows."""


class Database(Protocol):
    """One database. `name` is fit for messages; `now` is SQL for the seconds since 1970 by the database's own clock."""

    name: str
    now: str

    def run(self, work: Callable[[Cursor], T], *, write: bool) -> T:
        """Do `work` in a transaction of its own, where writing beside no other writer. Raises `StoreError`."""

    def close(self) -> None:
        """Let go of files and connections."""


def check_version(name: str, found: int, known: int) -> None:
    """Raise `StoreError` for tables of a later version than is known."""
    if found > known:
        raise StoreError(
            f"{name} was written by a later deepinfer (version {found} of its tables; this one knows {known}); "
            "update deepinfer, or name another place with --response-store"
        )
