"""Faults of the database server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from deepinfer.server.responses.store.interface import Limits, StoreError
from deepinfer.server.responses.store.opening import examine_store, open_store
from tests.store.conftest import OpenStore, kept, response
from tests.store.postgres_server import PASSWORD, PostgresServer

LIMITS = Limits(max_count=10, max_bytes=1000)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server for one test, which may stop it."""
    with PostgresServer() as server:
        yield server


def test_a_restart_of_the_database_goes_unnoticed(server: PostgresServer, open_at: OpenStore) -> None:
    store = open_at(server.new_place())
    store.put("a", response("1"))
    server.stop()
    for act in (lambda: store.put("a", response("2")), lambda: store.get("a", "1"), lambda: store.delete("a", "1")):
        with pytest.raises(StoreError, match=r"the PostgreSQL database 'postgres' on 127\.0\.0\.1:"):
            act()
    server.start()
    assert kept(store, "a", "1", "2") == ["1"]
    server.stop()
    server.start()
    # The connection that was kept is lost, and nobody has seen that yet.
    store.put("a", response("3"))
    assert kept(store, "a", "1", "3") == ["1", "3"]


def test_a_hanging_database_is_not_waited_for(server: PostgresServer, open_at: OpenStore) -> None:
    store = open_at(server.new_place())
    store.put("a", response("1"))
    server.signal_all(signal.SIGSTOP)
    start = time.monotonic()
    try:
        # First on the connection that is there, then on one that has to be made.
        for _ in range(2):
            with pytest.raises(StoreError, match="did not answer within 5 s"):
                store.get("a", "1")
    finally:
        server.signal_all(signal.SIGCONT)
    assert time.monotonic() - start < 20
    assert kept(store, "a", "1") == ["1"]


def test_no_message_has_the_password(server: PostgresServer) -> None:
    good = server.url("postgres")
    bad = [
        good.replace("se%3A", "wrong%3A"),
        good.replace("%25word@127.0.0.1", "%25word@127.0.0.1:port"),
        good.replace("%25", "%"),
        good.replace("tester:", "nobody:").replace("postgresql", "postgres"),
        good.replace("/postgres", "/nowhere"),
        good + "?sslmode=require",
        good + "?" + PASSWORD,
    ]
    for url in bad:
        for act in (partial(open_store, url, LIMITS, {}), partial(examine_store, url, {})):
            with pytest.raises(StoreError) as caught:
                act()
            shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
            for secret in (PASSWORD, "se%3A", "cr@t", "cr%40t", "word@", "wrong"):
                assert secret not in shown, shown


def test_the_doctor_sees_what_is_there(postgres: PostgresServer, open_at: OpenStore) -> None:
    url = postgres.new_place()
    assert examine_store(url, {}).endswith("where tables will be made")
    open_at(url).put("a", response("1"))
    assert examine_store(url, {}).endswith(f"(1 so far, {response('1').size} bytes)")
