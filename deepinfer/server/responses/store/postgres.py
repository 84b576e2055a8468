"""A PostgreSQL database as the store's.

Connections are opened as threads need them and kept for the next; one that the server has closed is replaced. No call
waits for longer than some seconds: what has not answered by then is cut off.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any, Final, LiteralString, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from deepinfer.server.responses.store.database import Cursor, check_version
from deepinfer.server.responses.store.interface import StoreError

T = TypeVar("T")

_CONNECT_SECONDS: Final = 5
_ANSWER_SECONDS: Final = 5
# Ends what a server of ours that was cut off in mid-transaction would hold on to.
_BOUNDS: Final = f"SET LOCAL idle_in_transaction_session_timeout = '{2 * _ANSWER_SECONDS}s'"
# Any number, the same for every deepinfer: who holds it is the one that changes the tables' form.
_MIGRATION_LOCK: Final = 7_133_190_466

_VERSIONS: Final = "CREATE TABLE IF NOT EXISTS deepinfer_store_version (version integer NOT NULL)"
# Each brings the tables to the next version.
_MIGRATIONS: Final = (
    """
    CREATE TABLE deepinfer_responses (
        place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        owner text NOT NULL,
        id text NOT NULL,
        size bigint NOT NULL,
        kept double precision NOT NULL,
        maker text,
        alive_until double precision NOT NULL,
        body bytea NOT NULL,
        input_items bytea NOT NULL,
        events bytea,
        UNIQUE (owner, id)
    );
    CREATE INDEX deepinfer_unfinished ON deepinfer_responses (place) WHERE maker IS NOT NULL;
    CREATE TABLE deepinfer_totals (responses bigint NOT NULL, bytes bigint NOT NULL);
    INSERT INTO deepinfer_totals VALUES (0, 0);
    """,
)


class _Cursor:
    """A cursor that takes `?` for parameters."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Self:
        # Without parameters a text may hold several statements; their results come as text, in which bytes take double.
        self._cursor.execute(statement.replace("?", "%s").encode(), parameters or None, binary=bool(parameters))
        return self

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()


class PostgresDatabase:
    """Connections to one database. No message has the password."""

    now: str = "extract(epoch FROM clock_timestamp())::double precision"

    def __init__(self, url: str) -> None:
        """Connect, and bring the tables up to date. Raises `StoreError`."""
        self._settings = _read_url(url)
        self.name = _describe(self._settings)
        # Those that no thread uses now.
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = Lock()
        self._closed = False
        self._run(self._migrate, f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")

    def run(self, work: Callable[[Cursor], T], *, write: bool) -> T:
        """Do `work` in a transaction. Raises `StoreError`."""
        # The one row of totals is what writers wait for, always first, so that no two wait for each other.
        return self._run(work, "SELECT 1 FROM deepinfer_totals FOR UPDATE" if write else None)

    def close(self) -> None:
        """Close the connections that no thread uses; the others are closed after their use."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _run(self, work: Callable[[Cursor], T], claim: str | None) -> T:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            used_before, start = connection is not None, time.monotonic()
            try:
                connection = connection or self._connect()
                with _bounded(connection), connection.transaction(), connection.cursor() as cursor:
                    if claim is not None:
                        cursor.execute(f"{_BOUNDS}; {claim}".encode())
                    result = work(_Cursor(cursor))
                self._put_back(connection)
                return result
            except psycopg.Error as error:
                was_lost = connection is not None and connection.broken
                if connection is not None:
                    connection.close()
                if time.monotonic() - start >= _ANSWER_SECONDS:
                    raise StoreError(f"{self.name} did not answer within {_ANSWER_SECONDS} s") from None
                # The server may have been restarted since the connection was last used.
                if not (used_before and was_lost):
                    raise StoreError(f"{self.name}: {_one_line(error)}") from None
            except BaseException:
                if connection is not None:
                    connection.close()
                raise

    def _connect(self) -> psycopg.Connection[Any]:
        # Prepared statements do not get through every pooler.
        return psycopg.connect(**self._settings, autocommit=True, prepare_threshold=None)

    def _put_back(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _migrate(self, cursor: Cursor) -> None:
        row = cursor.execute(_VERSIONS).execute("SELECT version FROM deepinfer_store_version").fetchone()
        version = 0 if row is None else row[0]
        check_version(self.name, version, len(_MIGRATIONS))
        if version == len(_MIGRATIONS):
            return
        for script in _MIGRATIONS[version:]:
            cursor.execute(script)
        cursor.execute("DELETE FROM deepinfer_store_version")
        cursor.execute("INSERT INTO deepinfer_store_version VALUES (?)", (len(_MIGRATIONS),))


def examine_database(url: str) -> str:
    """What a database holds, or that its tables can be made; changes nothing. Raises `StoreError`."""
    settings = _read_url(url)
    name = _describe(settings)
    try:
        with psycopg.connect(**settings) as connection, _bounded(connection):
            if not _holds(connection, "SELECT to_regclass('deepinfer_store_version') IS NOT NULL"):
                if not _holds(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')"):
                    raise StoreError(f"{name}: this user may not make tables there; grant it CREATE on the schema")
                return f"{name}, where tables will be made"
            ((version,),) = connection.execute("SELECT version FROM deepinfer_store_version").fetchall()
            check_version(name, version, len(_MIGRATIONS))
            ((count, size),) = connection.execute("SELECT responses, bytes FROM deepinfer_totals").fetchall()
            return f"{name} ({count} so far, {size} bytes)"
    except psycopg.Error as error:
        raise StoreError(f"{name}: {_one_line(error)}") from None


def _holds(connection: psycopg.Connection[Any], question: LiteralString) -> bool:
    row = connection.execute(question).fetchone()
    return row is not None and bool(row[0])


@contextmanager
def _bounded(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Cut a connection that takes too long. Its thread then gets the error of a lost connection."""
    # A number of its own: the connection may be closed, and its number be somebody else's, when the time is up.
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        timer = Timer(_ANSWER_SECONDS, _cut, [line])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _cut(line: socket.socket) -> None:
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _read_url(url: str) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        # What libpq says of a faulty URL may quote a part of the password.
        raise StoreError(
            "--response-store is not a valid PostgreSQL URL; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with %XX for special characters"
        ) from None
    return {"connect_timeout": _CONNECT_SECONDS, "application_name": "deepinfer", **settings}


def _describe(settings: dict[str, Any]) -> str:
    """Name the database as its users know it, without the password."""
    host, port = settings.get("host") or "this machine", settings.get("port")
    return f"the PostgreSQL database {settings.get('dbname', '')!r} on {host}{f':{port}' if port else ''}"


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
