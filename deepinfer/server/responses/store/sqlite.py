"""A SQLite file as the store's database.

Every change is on the disk when it returns (WAL with synchronous=FULL): neither a crash nor a power cut loses it. One
connection writes and another reads, each by one thread at a time; readers do not wait for writers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from deepinfer.server.responses.store.database import Cursor, check_version
from deepinfer.server.responses.store.interface import StoreError, UnwritableError

T = TypeVar("T")

# How long to wait for a writer of another process, or for a thread of this one.
_WAIT_SECONDS: Final = 5
# Pages of free space beyond which the file is made smaller, and by how many at a time.
_FREE_PAGES: Final = 1024
_PAGES_GIVEN_BACK: Final = 256
_WAL_BYTES: Final = 16 * 1024 * 1024

# Each brings the tables to the next version.
_MIGRATIONS: Final = (
    """
    CREATE TABLE deepinfer_responses (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        size INTEGER NOT NULL,
        kept REAL NOT NULL,
        maker TEXT,
        alive_until REAL NOT NULL,
        body BLOB NOT NULL,
        input_items BLOB NOT NULL,
        events BLOB,
        UNIQUE (owner, id)
    ) STRICT;
    CREATE INDEX deepinfer_unfinished ON deepinfer_responses (place) WHERE maker IS NOT NULL;
    CREATE TABLE deepinfer_totals (responses INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
    INSERT INTO deepinfer_totals VALUES (0, 0);
    """,
)

_ADVICE: Final = {
    sqlite3.SQLITE_BUSY: "another program holds it",
    sqlite3.SQLITE_LOCKED: "another program holds it",
    sqlite3.SQLITE_CANTOPEN: "make its folder writable for this user",
    sqlite3.SQLITE_CORRUPT: "move it away, or put a copy back in its place, and restart",
    sqlite3.SQLITE_FULL: "make space on the disk, or lower --stored-response-bytes",
    sqlite3.SQLITE_IOERR: "make space on the disk, and check it",
    sqlite3.SQLITE_NOTADB: "move it away, or put a copy back in its place, and restart",
    sqlite3.SQLITE_READONLY: "make it and its folder writable for this user",
}
_UNWRITABLE: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


class SqliteDatabase:
    """The connections to one file."""

    now: str = "(julianday('now') - 2440587.5) * 86400.0"

    def __init__(self, path: Path) -> None:
        """Open a file, make it if it is not there, and bring its tables up to date. Raises `StoreError`."""
        self.name = f"the file {path}"
        self._path = path
        try:
            _make_file(path)
            self._writer, self._reader = self._open(), self._open()
            _migrate(self._writer, self.name)
            self._identity = _identity(path)
        except OSError as error:
            raise UnwritableError(f"{self.name}: {error.strerror}") from None
        except sqlite3.Error as error:
            raise _explained(self.name, error) from None
        self._locks = {self._writer: Lock(), self._reader: Lock()}

    def run(self, work: Callable[[Cursor], T], *, write: bool) -> T:
        """Do `work` in a transaction. Raises `StoreError`."""
        connection = self._writer if write else self._reader
        lock = self._locks[connection]
        if not lock.acquire(timeout=_WAIT_SECONDS):
            raise StoreError(f"{self.name} is busy; try again")
        try:
            self._check_identity()
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                result = work(connection.cursor())
                connection.execute("COMMIT")
            except BaseException:
                # Some faults have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if write:
                _give_back(connection)
            return result
        except sqlite3.Error as error:
            raise _explained(self.name, error) from error
        finally:
            lock.release()

    def close(self) -> None:
        """Close the connections; the last one moves what is in the write-ahead log into the file."""
        for connection, lock in self._locks.items():
            with lock:
                connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        # Takes effect in an empty file only.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        return connection

    def _check_identity(self) -> None:
        """Refuse to write into a file that nobody will find again."""
        try:
            same = _identity(self._path) == self._identity
        except OSError:
            same = False
        if not same:
            raise StoreError(f"{self.name} was removed or replaced while it was in use; restart the server")


def examine_file(path: Path) -> str:
    """What a file holds, or that it can be made; changes nothing. Raises `StoreError`."""
    name = f"the file {path}"
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UnwritableError(f"{name} cannot be made: {folder} is not writable for this user")
        return f"{name}, which will be made"
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise UnwritableError(f"{name} or its folder is not writable for this user")
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            check_version(name, version, len(_MIGRATIONS))
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            totals = (
                connection.execute("SELECT responses, bytes FROM deepinfer_totals").fetchone() if version else (0, 0)
            )
    except sqlite3.Error as error:
        raise _explained(name, error) from None
    if verdict != "ok":
        raise StoreError(f"{name} is damaged: {verdict}; {_ADVICE[sqlite3.SQLITE_CORRUPT]}")
    return f"{name} ({totals[0]} so far, {totals[1]} bytes)"


def _make_file(path: Path) -> None:
    """Make the file and its folder for their owner alone: they hold what clients wrote."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _identity(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_dev, state.st_ino


def _migrate(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        check_version(name, version, len(_MIGRATIONS))
        for script in _MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _give_back(connection: sqlite3.Connection) -> None:
    """Make the file smaller where it holds much free space, a bounded piece at a time."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if free > _FREE_PAGES:
        # Each step of this statement gives back one page, and has no row to fetch; a script is run to its end.
        connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_GIVEN_BACK})")


def _explained(name: str, error: sqlite3.Error) -> StoreError:
    # The low byte is the kind of fault, the rest its variant.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    message = f"{name}: {error}"
    if kind in _ADVICE:
        message += f"; {_ADVICE[kind]}"
    return UnwritableError(message) if kind in _UNWRITABLE else StoreError(message)
