"""Stores that outlive their server and that several servers share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest

from deepinfer.server.responses.store.database import Database
from deepinfer.server.responses.store.interface import ResponseStore, StoreError
from deepinfer.server.responses.store.makers import has_ended, new_maker
from deepinfer.server.responses.store.postgres import PostgresDatabase
from deepinfer.server.responses.store.sqlite import SqliteDatabase
from tests.store.conftest import OpenStore, kept, response

WRITER = """
import sys
from deepinfer.server.responses.store.interface import Limits
from deepinfer.server.responses.store.opening import open_store
from tests.store.conftest import response

place, name, count = sys.argv[1:]
store = open_store(place, Limits(max_count=100, max_bytes=10**6), {})
for number in range(int(count)):
    store.put("a", response(f"{name}-{number}", unfinished=number % 10 == 0))
    store.put("b", response(f"shared-{number % 3}", size=number))
    store.delete("b", f"shared-{(number + 1) % 3}")
print("done", flush=True)
sys.stdin.read()
"""


@contextmanager
def database_at(place: str) -> Iterator[Database]:
    """The database of a store, to look into."""
    database = PostgresDatabase(place) if "://" in place else SqliteDatabase(Path(place))
    yield database
    database.close()


def change(place: str, statement: str) -> None:
    with database_at(place) as database:
        database.run(lambda cursor: cursor.execute(statement), write=True)


def ask(place: str, statement: str) -> list[Any]:
    with database_at(place) as database:
        return database.run(lambda cursor: cursor.execute(statement).fetchall(), write=False)


def writer(place: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, place, name, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_until_done(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def status(store: ResponseStore, id: str) -> tuple[bool, str, Any]:
    """Whether it is unfinished, its status and its error."""
    found = store.get("a", id)
    assert found is not None
    body = msgspec.json.decode(found.body)
    return found.unfinished, body["status"], body["error"]


def test_what_was_kept_is_there_after_opening_again(place: str, open_at: OpenStore) -> None:
    first = open_at(place)
    first.put("a", response("1", events=(b"x",)))
    first.close()
    second = open_at(place)
    assert second.get("a", "1") == response("1", events=(b"x",))
    assert second.usage.responses == 1
    # A lower limit holds from the start on.
    second.put("a", response("2"))
    third = open_at(place, max_count=1)
    assert kept(third, "a", *"12") == ["2"] and third.usage.responses == 1


def test_servers_see_what_the_others_keep(place: str, open_at: OpenStore) -> None:
    one, other = open_at(place), open_at(place)
    one.put("a", response("1"))
    assert other.get("a", "1") == response("1") and other.delete("a", "1")
    assert one.get("a", "1") is None


def test_processes_write_at_the_same_time(place: str, open_at: OpenStore) -> None:
    processes = [writer(place, str(number), 60) for number in range(3)]
    for process in processes:
        wait_until_done(process)
    store = open_at(place, max_count=100)
    (row,) = ask(place, "SELECT count(*), sum(size) FROM deepinfer_responses")
    assert tuple(row) == tuple(store.usage)
    # The last that each of them did was to delete one.
    assert 97 <= row[0] <= 100
    assert status(store, "0-0")[0]
    for process in processes:
        end(process)
    unfinished, found, error = status(store, "0-0")
    assert (unfinished, found, error["code"]) == (False, "failed", "server_error")
    assert "restarted while this response was being made" in error["message"]


def test_many_open_an_empty_place_at_once(place: str, open_at: OpenStore) -> None:
    together = Barrier(8)

    def work(number: int) -> None:
        together.wait()
        open_at(place).put("a", response(str(number)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert open_at(place).usage.responses == 8


def test_a_killed_writer_loses_nothing_and_leaves_nothing_unfinished(place: str, open_at: OpenStore) -> None:
    process = writer(place, "x", 30)
    wait_until_done(process)
    end(process)
    store = open_at(place)
    assert len(kept(store, "a", *(f"x-{number}" for number in range(30)))) == 30
    assert ask(place, "SELECT id FROM deepinfer_responses WHERE maker IS NOT NULL") == []
    assert status(store, "x-10")[:2] == (False, "failed")
    (row,) = ask(place, "SELECT count(*), sum(size) FROM deepinfer_responses")
    assert tuple(row) == tuple(store.usage)


def test_what_a_living_server_makes_is_left_alone(place: str, open_at: OpenStore) -> None:
    one = open_at(place, max_count=2)
    one.put("a", response("1", unfinished=True))
    other = open_at(place, max_count=2)
    for id in "234":
        other.put("a", response(id))
    assert status(other, "1")[:2] == status(one, "1")[:2] == (True, "in_progress")
    one.put("a", response("1", size=30))
    assert other.get("a", "1") == response("1", size=30)


def test_a_silent_server_counts_as_ended(place: str, open_at: OpenStore) -> None:
    one, other = open_at(place), open_at(place)
    one.put("a", response("1", unfinished=True))
    one.put("a", response("2", unfinished=True))
    change(place, "UPDATE deepinfer_responses SET alive_until = 0")
    one.renew([("a", "1"), ("a", "unknown")])
    assert status(other, "1")[0] and status(other, "2")[:2] == (False, "failed")
    # Nobody renews for another.
    change(place, "UPDATE deepinfer_responses SET alive_until = 0")
    other.renew([("a", "1")])
    assert status(other, "1")[:2] == (False, "failed")
    # Should it have been alive all the same, what it made counts.
    one.put("a", response("1", size=30))
    assert other.get("a", "1") == response("1", size=30)


def test_one_put_removes_a_bounded_number(place: str, open_at: OpenStore) -> None:
    open_at(place, max_count=5000).put("a", response("0"))
    columns = "owner, size, kept, maker, alive_until, body, input_items, events"
    copy = (
        f"INSERT INTO deepinfer_responses (id, {columns}) SELECT ?, {columns} FROM deepinfer_responses WHERE id = '0'"
    )
    with database_at(place) as database:
        database.run(lambda cursor: [cursor.execute(copy, (str(number),)) for number in range(1, 2000)], write=True)
    change(place, "UPDATE deepinfer_totals SET responses = 2000, bytes = bytes * 2000")
    small = open_at(place, max_count=10)
    assert small.usage.responses == 1000
    small.put("a", response("x"))
    assert small.usage.responses == 10 and kept(small, "a", "1990", "1991", "x") == ["1991", "x"]


def test_a_later_version_is_refused(place: str, open_at: OpenStore) -> None:
    open_at(place)
    is_file = "://" not in place
    change(place, "PRAGMA user_version = 9" if is_file else "UPDATE deepinfer_store_version SET version = 9")
    with pytest.raises(StoreError, match=r"later deepinfer \(version 9 .* this one knows 1\); update deepinfer"):
        open_at(place)


def test_a_process_is_known_to_have_ended_only_when_it_has() -> None:
    assert not has_ended(new_maker())
    machine, number, start, name = new_maker().rsplit(" ", 3)
    assert has_ended(f"{machine} {number} {int(start) - 1} {name}")
    assert not has_ended(f"other {machine} {number} {int(start) - 1} {name}")
    assert not has_ended(" 1 1 x")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone_stat = Path(f"/proc/{gone.pid}/stat").read_text().rpartition(")")[2].split()[19]
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    # Nobody has fetched its status yet.
    assert has_ended(f"{machine} {gone.pid} {gone_stat} {name}")
    gone.wait()
    assert has_ended(f"{machine} {gone.pid} {gone_stat} {name}")
