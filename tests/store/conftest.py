"""Every kind of store: what they have in common is tested on all of them, on real databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deepinfer.server.responses.store.interface import Limits, ResponseStore, StoredResponse
from deepinfer.server.responses.store.opening import open_store
from tests.store.postgres_server import PostgresServer

OpenStore = Callable[..., ResponseStore]
SHARED = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of the whole run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a store that several may share, as `--response-store` names it."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "responses.sqlite3")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_place()


@pytest.fixture
def open_at() -> Iterator[Callable[..., ResponseStore]]:
    """Opens stores, which are closed with the test."""
    opened: list[ResponseStore] = []

    def open_one(
        place: str, *, max_count: int = 1000, max_bytes: int = 1_000_000, max_age: float | None = None
    ) -> ResponseStore:
        limits = Limits(max_count=max_count, max_bytes=max_bytes, max_age=max_age)
        store = open_store(place, limits, {})
        assert store is not None
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture(params=("memory", *SHARED))
def open_any(request: pytest.FixtureRequest, tmp_path: Path, open_at: OpenStore) -> OpenStore:
    """Opens a store of any kind, with limits of one's own."""
    if request.param == "memory":
        return lambda **limits: open_at("memory", **limits)
    place = str(tmp_path / "file")
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").new_place()
    return lambda **limits: open_at(place, **limits)


def response(
    id: str, *, size: int = 10, unfinished: bool = False, events: tuple[bytes, ...] | None = None
) -> StoredResponse:
    """A response whose body takes `size` bytes."""
    body = b'{"id":"%b","status":"in_progress","error":null,"pad":""}' % id.encode() if unfinished else b"x" * size
    return StoredResponse(id=id, body=body, input_items=b"[]", events=events, unfinished=unfinished)


def kept(store: ResponseStore, owner: str, *ids: str) -> list[str]:
    """Which of these are there."""
    return [id for id in ids if store.get(owner, id) is not None]
