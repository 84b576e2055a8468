"""Faults of the file."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from deepinfer.doctor import examine
from deepinfer.server.responses.store.interface import Limits, StoreError, UnwritableError
from deepinfer.server.responses.store.memory import MemoryResponseStore
from deepinfer.server.responses.store.opening import default_path, examine_store, open_store
from deepinfer.settings import ServeSettings
from tests.store.conftest import OpenStore, kept, response

LIMITS = Limits(max_count=10, max_bytes=1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "responses.sqlite3"


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_file_is_its_owners_alone_and_survives_a_power_cut(file: Path, open_at: OpenStore) -> None:
    store = open_at(str(file))
    store.put("a", response("1"))
    for path in (file, file.with_name(f"{file.name}-wal")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    # Before anything was moved into the file itself, it is on the disk already.
    copy = file.with_name("copy")
    for end in ("", "-wal"):
        copy.with_name(f"copy{end}").write_bytes(file.with_name(f"{file.name}{end}").read_bytes())
    assert kept(open_at(str(copy)), "a", "1") == ["1"]


def test_a_full_disk_refuses_and_says_what_to_do(file: Path, open_at: OpenStore) -> None:
    store = open_at(str(file))
    store.put("a", response("1"))
    for size in (400_000, 300_000):
        with no_file_longer_than(200_000), pytest.raises(StoreError, match="make space on the disk"):
            store.put("a", response("2", size=size))
        assert kept(store, "a", "1", "2") == ["1"]
    store.put("a", response("2", size=300_000))
    assert kept(store, "a", "1", "2") == ["1", "2"] and store.usage.responses == 2


def test_a_damaged_file_is_an_error_that_says_what_to_do(file: Path, open_at: OpenStore) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database at all " * 1000)
    for act in (partial(open_at, str(file)), partial(examine_store, str(file), {})):
        with pytest.raises(StoreError, match="not a database; move it away, or put a copy back"):
            act()


def test_damage_while_it_is_in_use_is_told(file: Path, open_at: OpenStore) -> None:
    store = open_at(str(file))
    for number in range(50):
        store.put("a", response(str(number), size=5000))
    store.close()
    whole = file.read_bytes()
    store = open_at(str(file))
    file.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(StoreError, match="move it away"):
        for number in range(50):
            store.get("a", str(number))
    with pytest.raises(StoreError, match="move it away"):
        examine_store(str(file), {})
    store.close()
    file.write_bytes(whole)
    assert kept(open_at(str(file)), "a", "7", "49") == ["7", "49"]


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_is_written_into_a_file_that_was_removed(file: Path, open_at: OpenStore, replace: bool) -> None:
    store = open_at(str(file))
    file.unlink()
    if replace:
        file.touch()
    acts: list[Callable[[], object]] = [lambda: store.put("a", response("1")), lambda: store.get("a", "1")]
    for act in acts:
        with pytest.raises(StoreError, match="removed or replaced while it was in use; restart the server"):
            act()


def test_a_file_that_another_program_holds_is_waited_for_but_not_for_ever(file: Path, open_at: OpenStore) -> None:
    store = open_at(str(file))
    store.put("a", response("1"))
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    faults: list[StoreError] = []

    def put(id: str) -> None:
        try:
            store.put("a", response(id))
        except StoreError as error:
            faults.append(error)

    threads = [threading.Thread(target=put, args=(id,)) for id in "23"]
    for thread in threads:
        thread.start()
    # Reading does not wait.
    assert kept(store, "a", "1") == ["1"]
    for thread in threads:
        thread.join()
    assert len(faults) == 2 and any("another program holds it" in str(fault) for fault in faults)
    holder.execute("COMMIT")
    holder.close()
    store.put("a", response("2"))


def test_space_is_given_back(file: Path, open_at: OpenStore) -> None:
    store = open_at(str(file), max_bytes=30_000_000)
    for number in range(20):
        store.put("a", response(str(number), size=1_000_000))
    for number in range(20):
        store.delete("a", str(number))
    for number in range(100):
        store.put("a", response(str(number)))
    store.close()
    assert file.stat().st_size < 6_000_000


def test_the_default_is_a_file_of_the_user(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    assert default_path(environment) == tmp_path / "deepinfer" / "responses.sqlite3"
    assert default_path({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/deepinfer/responses.sqlite3"
    caplog.set_level("INFO")
    assert "which will be made" in examine_store(None, environment)
    store = open_store(None, LIMITS, environment)
    assert store is not None
    store.put("a", response("1"))
    assert str(tmp_path) in caplog.text and "(0 so far, 0 bytes)" in caplog.text
    assert examine_store(None, environment).endswith(f"(1 so far, {response('1').size} bytes)")
    store.close()
    assert open_store(None, Limits(max_count=0, max_bytes=1), environment) is None


def test_without_a_place_for_the_default_memory_has_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "deepinfer").touch()
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    store = open_store(None, LIMITS, environment)
    assert isinstance(store, MemoryResponseStore)
    assert "in memory and gone with the server" in caplog.text and "--response-store" in caplog.text
    with pytest.raises(StoreError) as caught:
        open_store(str(tmp_path / "deepinfer" / "responses"), LIMITS, environment)
    assert isinstance(caught.value, UnwritableError) and str(tmp_path) in str(caught.value)


def test_places_are_named_in_several_ways(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for number, place in enumerate((str(path), f"sqlite://{path}", os.path.relpath(path))):
        store = open_store(place, LIMITS, {})
        assert store is not None
        store.put("a", response(str(number)))
        store.close()
    assert examine_store(str(path), {}).endswith(f"{path} (3 so far, {3 * response('1').size} bytes)")
    with pytest.raises(StoreError) as caught:
        open_store("mysql://me:secret@host/x", LIMITS, {})
    assert "'mysql'" in str(caught.value) and "secret" not in str(caught.value)


def test_the_doctor_looks_at_the_store(tmp_path: Path) -> None:
    def look(place: str | None) -> str:
        lines: list[str] = []
        settings = ServeSettings(engine="scripted", script=str(script), port=0, response_store=place)
        examine(settings, {"XDG_STATE_HOME": str(tmp_path)}, write=lines.append)
        return "\n".join(lines)

    script = tmp_path / "rules.toml"
    script.write_text('[[rule]]\nmatch = "."\noutput = "Hello"\n')
    assert f"ok    responses are kept in the file {tmp_path}/deepinfer/responses.sqlite3, which will be made" in look(
        None
    )
    assert not (tmp_path / "deepinfer").exists()
    (tmp_path / "deepinfer").touch()
    assert "warn  responses are kept in memory" in look(None) and "deepinfer serve can start" in look(None)
    for place in (str(tmp_path / "deepinfer" / "file"), str(script)):
        assert "fail  responses cannot be kept" in look(place) and "will not start" in look(place)
    assert "ok    responses are kept in memory, and gone" in look("memory")
