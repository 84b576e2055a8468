"""What every store does, whatever it keeps responses in."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepinfer.server.responses.store.interface import StoredResponse, StoreError, Usage
from tests.store.conftest import OpenStore, kept, response

BYTES = st.binary(max_size=40)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "get", "delete"]),
        st.sampled_from("ab"),
        st.sampled_from(["resp_1", "resp_2", "resp_3", "resp_4"]),
        BYTES,
        st.none() | st.lists(BYTES, max_size=3).map(tuple),
    ),
    max_size=40,
)


def test_owners_see_their_own(open_any: OpenStore) -> None:
    store = open_any()
    store.put("a", response("1"))
    store.put("b", response("2"))
    assert store.get("b", "1") is None and not store.delete("b", "1")
    assert store.get("a", "1") == response("1")
    assert store.delete("a", "1") and not store.delete("a", "1")
    assert store.get("a", "1") is None
    # The same id of two owners is two responses.
    store.put("a", response("2", size=20))
    assert store.get("b", "2") == response("2") and store.get("a", "2") == response("2", size=20)


def test_all_of_a_response_comes_back(open_any: OpenStore) -> None:
    store = open_any()
    whole = StoredResponse(
        id="resp_1", body="ö\0".encode(), input_items=bytes(range(256)), events=(b"a\n\n", b"", b"\0\xff\n\n\n")
    )
    store.put("a", whole)
    assert store.get("a", "resp_1") == whole
    assert store.usage == Usage(1, whole.size)


def test_the_oldest_go_when_there_are_too_many(open_any: OpenStore) -> None:
    store = open_any(max_count=2)
    for id in "123":
        store.put("a", response(id))
    assert kept(store, "a", *"123") == ["2", "3"]
    # A new state makes a response young again.
    store.put("a", response("2"))
    store.put("b", response("4"))
    assert kept(store, "a", *"123") == ["2"] and kept(store, "b", "4") == ["4"]
    assert store.usage.responses == 2


def test_the_oldest_go_when_they_take_too_much(open_any: OpenStore) -> None:
    store = open_any(max_bytes=106)
    store.put("a", response("1", size=50))
    store.put("a", response("2", size=50))
    assert kept(store, "a", *"12") == ["1", "2"]
    store.put("a", response("2", size=51))
    assert kept(store, "a", *"12") == ["2"]
    store.put("a", response("3", size=103))
    assert kept(store, "a", *"123") == ["3"]


def test_what_never_fits_is_refused_and_changes_nothing(open_any: OpenStore) -> None:
    store = open_any(max_bytes=100)
    store.put("a", response("1", size=50))
    for too_large in (response("2", size=98), response("2", events=(b"x" * 60, b"x" * 60), size=1)):
        with pytest.raises(StoreError, match="bytes, and all that is kept may take 100 together"):
            store.put("a", too_large)
    assert kept(store, "a", *"12") == ["1"]


def test_a_new_state_takes_the_place_of_the_old_one(open_any: OpenStore) -> None:
    store = open_any(max_count=2, max_bytes=1000)
    store.put("a", response("1", size=1))
    for _ in range(5):
        store.put("a", response("1", size=400))
    store.put("a", response("2", size=400))
    assert kept(store, "a", *"12") == ["1", "2"]


def test_the_aged_are_gone_without_anybody_putting(open_any: OpenStore) -> None:
    store = open_any(max_age=0.5)
    store.put("a", response("1"))
    assert kept(store, "a", "1") == ["1"]
    time.sleep(0.6)
    assert kept(store, "a", "1") == [] and not store.delete("a", "1")
    store.put("a", response("2"))
    assert store.usage.responses == 1


def test_many_threads_lose_nothing(open_any: OpenStore) -> None:
    store = open_any()

    def work(thread: int) -> None:
        for number in range(25):
            id = f"{thread}-{number}"
            store.put("a", response(id, size=100))
            assert store.get("a", id) == response(id, size=100)
            if number % 5 == 0:
                assert store.delete("a", id)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    each = response("0-11", size=100).size
    assert store.usage.responses == 8 * 20 and abs(store.usage.bytes - 160 * each) <= 160


class Model:
    """The rules, in a few lines: responses by age, and the oldest go."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], StoredResponse] = {}

    def put(self, owner: str, given: StoredResponse) -> None:
        self.kept.pop((owner, given.id), None)
        self.kept[owner, given.id] = given
        while len(self.kept) > 5 or sum(one.size for one in self.kept.values()) > 200:
            del self.kept[next(iter(self.kept))]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_any_course_of_events_goes_as_the_rules_say(open_any: OpenStore, steps: list[Any]) -> None:
    store, model = open_any(max_count=5, max_bytes=200), Model()
    for owner in "ab":
        for number in range(1, 5):
            store.delete(owner, f"resp_{number}")
    for action, owner, id, data, events in steps:
        given = StoredResponse(id=id, body=data, input_items=data[:3], events=events)
        if action == "put" and given.size <= 200:
            store.put(owner, given)
            model.put(owner, given)
        elif action == "delete":
            assert store.delete(owner, id) == (model.kept.pop((owner, id), None) is not None)
        else:
            assert store.get(owner, id) == model.kept.get((owner, id))
    assert store.usage == Usage(len(model.kept), sum(one.size for one in model.kept.values()))
