"""Servers that are killed, restarted, share a store, or whose store breaks: requests go on, and nothing lies."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, chat_body, eventually
from tests.store.postgres_server import PASSWORD, PostgresServer
from tests.store.serving import create, retrieve, status_of

RULES = """
[[rule]]
match = "never end"
output = "Talking.</think>{endless}"
delay_seconds = 0.01

[[rule]]
match = "long"
output = "Long.</think>{long}"
tokens_per_step = 1000

[[rule]]
match = "soon"
output = "Soon.</think>one two three four five six seven eight nine ten"
delay_seconds = 0.02

[[rule]]
match = "."
output = "Short.</think>Hello"
"""

Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers at places of one's own."""
    script = tmp_path / "rules.toml"
    script.write_text(RULES.format(endless="and so on " * 20_000, long="word " * 20_000))
    with ExitStack() as stack:
        number = 0

        def start_one(place: str, *flags: str, **more: Any) -> ServerProcess:
            nonlocal number
            number += 1
            flags = ("--engine", "scripted", "--script", str(script), "--response-store", place, *flags)
            return stack.enter_context(ServerProcess(tmp_path / f"server-{number}.log", *flags, **more))

        yield start_one


def kill(server: ServerProcess) -> None:
    server.process.kill()
    server.process.wait()


def warnings_of(answer: httpx.Response) -> str:
    return " ".join(json.loads(answer.headers.get("x-deepinfer-warnings", "[]")))


def test_a_kill_loses_no_completed_response(place: str, start: Start) -> None:
    """Killed in the midst of answering: every answer that a client has seen whole is there afterwards."""
    server = start(place, "--api-key", "one", "--api-key", "two")
    for key in ("one", "two"):
        assert server.http.get("/v1/models", headers={"x-api-key": key}).status_code == 200
    server.http.headers["x-api-key"] = "one"
    seen: list[dict[str, Any]] = []
    background = create(server, "never end", background=True).json()

    def ask() -> None:
        try:
            while True:
                seen.append(create(server, "Hello").json())
        except httpx.HTTPError:
            return

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(ask)
        eventually(lambda: len(seen) >= 20)
        kill(server)

    again = start(place, "--api-key", "one", "--api-key", "two")
    again.http.headers["x-api-key"] = "one"
    for response in seen:
        found = retrieve(again, response["id"])
        assert (found.status_code, found.json()) == (200, response)
    going_on = create(again, "Hello", previous_response_id=seen[-1]["id"])
    assert going_on.json()["status"] == "completed"
    found = retrieve(again, background["id"]).json()
    assert (found["status"], found["error"]["code"], found["background"]) == ("failed", "server_error", True)
    assert "restarted while this response was being made" in found["error"]["message"]
    assert again.gauge("deepinfer_stored_responses") >= len(seen) and again.gauge("deepinfer_stored_response_bytes") > 0
    again.http.headers["x-api-key"] = "two"
    assert retrieve(again, seen[0]["id"]).status_code == retrieve(again, background["id"]).status_code == 404
    assert create(again, "Hello", previous_response_id=seen[0]["id"]).status_code == 404


def test_the_stream_of_an_interrupted_response_ends_wherever_its_reader_was(place: str, start: Start) -> None:
    server = start(place)
    with server.http.stream(
        "POST",
        "/v1/responses",
        json={"model": "deepinfer-tiny", "input": "never end", "background": True, "stream": True},
    ) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        events = [json.loads(next(lines).removeprefix("data: ")) for _ in range(8)]
    kill(server)
    again = start(place)
    for after in (-1, 3, events[-1]["sequence_number"]):
        text = retrieve(again, events[0]["response"]["id"], stream="true", starting_after=after).text
        (data,) = (line for line in text.splitlines() if line.startswith("data: "))
        last = json.loads(data.removeprefix("data: "))
        assert (last["type"], last["sequence_number"]) == ("response.failed", after + 1)
        assert last["response"]["error"]["code"] == "server_error"


@pytest.mark.parametrize("patience", ["0.2", "30"])
def test_an_orderly_end_leaves_nothing_unfinished(place: str, start: Start, patience: str) -> None:
    server = start(place, "--shutdown-seconds", patience)
    text = "never end" if patience == "0.2" else "soon"
    made = create(server, text, background=True).json()
    eventually(lambda: status_of(server, made["id"]) == "in_progress")
    assert server.stop() == 0
    found = retrieve(start(place), made["id"]).json()
    if text == "soon":
        assert found["status"] == "completed"
    else:
        assert found["status"] == "failed" and "shutting down" in found["error"]["message"]


def test_two_servers_share_a_store(place: str, start: Start) -> None:
    one, other = start(place), start(place)
    first = create(one, "Hello").json()
    assert create(other, "Hello", previous_response_id=first["id"]).json()["status"] == "completed"
    made = create(one, "never end", background=True).json()
    assert status_of(other, made["id"]) in ("queued", "in_progress")
    path = f"/v1/responses/{made['id']}"
    refusals = [
        other.http.post(f"{path}/cancel"),
        other.http.delete(path),
        retrieve(other, made["id"], stream="true"),
    ]
    for refusal in refusals:
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (409, "made_elsewhere")
    assert other.http.get(f"{path}/input_items").json()["data"][0]["content"][0]["text"] == "never end"
    assert create(other, "x", previous_response_id=made["id"]).status_code == 404
    # A third one that starts now leaves it alone too.
    assert status_of(start(place), made["id"]) in ("queued", "in_progress")
    assert one.http.post(f"{path}/cancel").json()["status"] == "cancelled"
    assert status_of(other, made["id"]) == "cancelled"
    assert other.http.delete(path).json()["deleted"] and retrieve(one, made["id"]).status_code == 404
    again = create(one, "never end", background=True).json()
    kill(one)
    assert status_of(other, again["id"]) == "failed"


def check_goes_on_without_storing(server: ServerProcess, text: str, reason: str) -> None:
    """Answers come whole, plain and streamed, and say why they are not stored."""
    before = server.gauge("deepinfer_responses_not_stored_total")
    plain = create(server, text)
    assert (plain.status_code, plain.json()["status"]) == (200, "completed")
    assert "was not stored" in warnings_of(plain) and reason in warnings_of(plain)
    streamed = create(server, text, stream=True)
    assert ": the response was not stored: " in streamed.text and reason in streamed.text
    assert "event: response.completed" in streamed.text.split(": the response was not stored: ")[1]
    missing = create(server, "Hello", previous_response_id=plain.json()["id"])
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "previous_response_id")
    assert retrieve(server, plain.json()["id"]).json()["error"]["code"] == "not_stored"
    assert server.gauge("deepinfer_responses_not_stored_total") == before + 2
    assert reason in server.log


def check_background_is_found_all_the_same(server: ServerProcess, text: str) -> None:
    """What has no other way to its client stays with the server that made it."""
    made = create(server, text, background=True).json()
    eventually(lambda: status_of(server, made["id"]) == "completed")
    assert create(server, "Hello", previous_response_id=made["id"]).status_code == 200
    assert server.http.delete(f"/v1/responses/{made['id']}").status_code == 200


def test_a_disk_that_is_full_stops_no_request(tmp_path: Path, start: Start) -> None:
    """The system refuses to let files grow, as a full disk does."""
    place = str(tmp_path / "responses.sqlite3")
    server = start(place)
    first = create(server, "Hello").json()
    limit = Path(place).stat().st_size + 200_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    check_goes_on_without_storing(server, "long " * 60_000, "make space on the disk")
    check_background_is_found_all_the_same(server, "long " * 60_000)
    assert retrieve(server, first["id"]).json() == first
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    large = create(server, "long " * 60_000)
    assert not warnings_of(large) and retrieve(server, large.json()["id"]).json() == large.json()


def test_a_database_that_may_not_grow_stops_no_request(tmp_path: Path, start: Start) -> None:
    """SQLite itself says that the database is full."""
    module = tmp_path / "sitecustomize.py"
    module.write_text(
        "import sqlite3\n"
        "class Small(sqlite3.Connection):\n"
        "    def __init__(self, *arguments, **named):\n"
        "        super().__init__(*arguments, **named)\n"
        "        self.execute('PRAGMA max_page_count = 40')\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda *arguments, **named: connect(*arguments, factory=Small, **named)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    server = start(str(tmp_path / "responses.sqlite3"), environment={"PYTHONPATH": path})
    first = create(server, "Hello").json()
    check_goes_on_without_storing(server, "long " * 60_000, "database or disk is full; make space on the disk")
    assert not warnings_of(create(server, "Hello"))
    assert retrieve(server, first["id"]).json() == first


def test_a_response_that_never_fits_says_so(tmp_path: Path, start: Start) -> None:
    server = start(str(tmp_path / "responses.sqlite3"), "--stored-response-bytes", "50000")
    check_goes_on_without_storing(server, "long " * 60_000, "may take 50000 together")


def test_a_file_that_is_removed_or_damaged_stops_no_request(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "responses.sqlite3"
    server = start(str(file))
    made = create(server, "Hello").json()
    file.rename(tmp_path / "moved")
    answer = create(server, "Hello")
    assert answer.json()["status"] == "completed" and "restart the server" in warnings_of(answer)
    gone = retrieve(server, made["id"])
    assert (gone.status_code, gone.json()["error"]["code"]) == (503, "store_unavailable")
    assert str(file) in gone.json()["error"]["message"] and gone.headers["retry-after"]
    chained = create(server, "Hello", previous_response_id=made["id"])
    assert (chained.status_code, chained.json()["error"]["code"]) == (503, "store_unavailable")
    (tmp_path / "moved").rename(file)
    assert retrieve(server, made["id"]).json() == made
    assert server.stop() == 0
    # A damaged one is no reason to serve without what the operator asked for.
    file.write_bytes(b"\xff" * 8192)
    command = [sys.executable, "-m", "deepinfer", "serve", "--port", "0", "--response-store", str(file)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert refused.returncode == 1 and "move it away" in refused.stderr and "Traceback" not in refused.stderr


def test_a_database_that_stops_and_comes_back(start: Start) -> None:
    with PostgresServer() as database:
        place = database.new_place()
        server = start(place)
        made = create(server, "Hello").json()
        background = create(server, "soon", background=True).json()
        database.stop()
        answer = create(server, "Hello")
        assert answer.json()["status"] == "completed" and "was not stored" in warnings_of(answer)
        missing = retrieve(server, made["id"])
        assert (missing.status_code, missing.json()["error"]["code"]) == (503, "store_unavailable")
        assert create(server, "Hello", previous_response_id=made["id"]).status_code == 503
        eventually(lambda: status_of(server, background["id"]) == "completed")
        database.start()
        assert retrieve(server, made["id"]).json() == made
        assert create(server, "Hello", previous_response_id=made["id"]).status_code == 200
        # What was made meanwhile is offered to the database again.
        other = start(place)
        eventually(lambda: status_of(other, background["id"]) == "completed")
        assert PASSWORD not in server.log and "se%3A" not in server.log


def test_a_hanging_database_holds_up_nobody_else(start: Start) -> None:
    with PostgresServer() as database:
        server = start(database.new_place())
        made = create(server, "Hello").json()
        database.signal_all(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(40) as threads:
                waiting = [threads.submit(retrieve, server, made["id"]) for _ in range(20)]
                waiting += [threads.submit(create, server, "Hello", previous_response_id=made["id"]) for _ in range(20)]
                time.sleep(0.5)
                # Long enough to be read in a thread.
                for path, body in (
                    ("/v1/chat/completions", chat_body("Hello " * 20_000)),
                    ("/v1/responses", {"model": "deepinfer-tiny", "input": "Hello " * 20_000, "store": False}),
                    ("/tokenize", {"prompt": "Hello " * 20_000}),
                ):
                    assert server.http.post(path, json=body, timeout=30).status_code == 200
                assert not all(future.done() for future in waiting)
                assert {future.result().status_code for future in waiting} == {503}
        finally:
            database.signal_all(signal.SIGCONT)
        eventually(lambda: retrieve(server, made["id"]).status_code == 200)
