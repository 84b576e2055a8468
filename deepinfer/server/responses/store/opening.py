"""Which store it is to be, by the setting: a path, `memory`, or the URL of a database."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from deepinfer.server.responses.store.interface import Limits, ResponseStore, StoreError, UnwritableError
from deepinfer.server.responses.store.memory import MemoryResponseStore
from deepinfer.server.responses.store.sql import SqlResponseStore
from deepinfer.server.responses.store.sqlite import SqliteDatabase, examine_file

MEMORY: Final = "memory"
_SQLITE: Final = "sqlite"
_POSTGRES: Final = ("postgresql", "postgres")

logger: Final = logging.getLogger(__name__)


def default_path(environment: Mapping[str, str]) -> Path:
    """The file in the user's directory of state. Raises `RuntimeError` for a user without a home."""
    state = Path(environment.get("XDG_STATE_HOME", ""))
    # The standard has relative paths ignored.
    folder = state if state.is_absolute() else Path.home() / ".local" / "state"
    return folder / "deepinfer" / "responses.sqlite3"


def open_store(place: str | None, limits: Limits, environment: Mapping[str, str]) -> ResponseStore | None:
    """Open what `place` names, by default a file of the user. None if nothing is to be kept. Raises `StoreError`."""
    if not limits.max_count:
        return None
    if place == MEMORY:
        return MemoryResponseStore(limits)
    if place is None:
        return _open_default(limits, environment)
    path = path_of(place)
    return _open_file(path, limits) if path is not None else _open_postgres(place, limits)


def examine_store(place: str | None, environment: Mapping[str, str]) -> str:
    """Tell of a store without opening it for use. Raises `StoreError`: an `UnwritableError` if `serve` can do without.

    Whatever cannot be written is an error where it was named, and replaced by memory where it is the default.
    """
    if place == MEMORY:
        return "memory, and gone with the server"
    if place is None:
        try:
            return examine_file(default_path(environment))
        except RuntimeError as error:
            raise UnwritableError(str(error)) from None
    path = path_of(place)
    try:
        return _postgres().examine_database(place) if path is None else examine_file(path)
    except UnwritableError as error:
        raise StoreError(str(error)) from None


def path_of(place: str) -> Path | None:
    """The path of a SQLite file; None if `place` is the URL of a PostgreSQL database. Raises `StoreError`."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return Path(place).expanduser()
    if scheme == _SQLITE:
        return Path(rest)
    if scheme in _POSTGRES:
        return None
    # The rest may hold a password.
    raise StoreError(
        f"--response-store begins with {scheme[:20]!r}; give a path, sqlite:///PATH, postgresql://..., or {MEMORY}"
    )


def _open_default(limits: Limits, environment: Mapping[str, str]) -> ResponseStore:
    try:
        return _open_file(default_path(environment), limits)
    except (UnwritableError, RuntimeError) as error:
        logger.warning(
            "responses are kept in memory and gone with the server: %s; name another place with --response-store", error
        )
        return MemoryResponseStore(limits)


def _open_file(path: Path, limits: Limits) -> ResponseStore:
    database = SqliteDatabase(path)
    store = SqlResponseStore(database, limits)
    logger.info("responses are kept in %s (%d so far, %d bytes)", database.name, *store.usage)
    return store


def _open_postgres(url: str, limits: Limits) -> ResponseStore:
    database = _postgres().PostgresDatabase(url)
    store = SqlResponseStore(database, limits)
    logger.info("responses are kept in %s (%d so far, %d bytes)", database.name, *store.usage)
    return store


def _postgres() -> ModuleType:
    try:
        from deepinfer.server.responses.store import postgres
    except ImportError as error:
        raise StoreError(f'--response-store needs psycopg ({error}); pip install "deepinfer[postgres]"') from None
    return postgres
