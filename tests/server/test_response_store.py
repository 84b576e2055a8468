"""The store of responses in memory."""

from __future__ import annotations

from deepinfer.server.responses.store import MemoryResponseStore, StoredResponse


def response(id: str, *, size: int = 10) -> StoredResponse:
    return StoredResponse(id=id, body=b"x" * size, input_items=b"")


def kept(store: MemoryResponseStore, owner: str, *ids: str) -> list[str]:
    return [id for id in ids if store.get(owner, id) is not None]


def test_owners_see_their_own() -> None:
    store = MemoryResponseStore(max_count=10, max_bytes=1000)
    store.put("a", response("1"))
    assert store.get("b", "1") is None and not store.delete("b", "1")
    assert store.get("a", "1") == response("1")
    assert store.delete("a", "1") and not store.delete("a", "1")
    assert store.get("a", "1") is None


def test_the_oldest_go_when_there_are_too_many() -> None:
    store = MemoryResponseStore(max_count=2, max_bytes=1000)
    for id in "123":
        store.put("a", response(id))
    assert kept(store, "a", *"123") == ["2", "3"]


def test_the_oldest_go_when_they_take_too_much() -> None:
    store = MemoryResponseStore(max_count=100, max_bytes=102)
    store.put("a", response("1", size=50))
    store.put("a", response("2", size=50))
    assert kept(store, "a", *"12") == ["1", "2"]
    store.put("a", response("2", size=51))
    assert kept(store, "a", *"12") == ["2"]
    store.put("a", response("3", size=200))
    assert kept(store, "a", *"23") == ["2"]


def test_a_new_state_takes_the_place_of_the_old_one() -> None:
    store = MemoryResponseStore(max_count=2, max_bytes=1000)
    store.put("a", response("1", size=1))
    for _ in range(5):
        store.put("a", response("1", size=400))
    store.put("a", response("2", size=400))
    assert kept(store, "a", *"12") == ["1", "2"]


def test_events_count() -> None:
    store = MemoryResponseStore(max_count=2, max_bytes=100)
    store.put("a", StoredResponse(id="1", body=b"", input_items=b"", events=(b"x" * 60, b"x" * 60)))
    assert kept(store, "a", "1") == []
