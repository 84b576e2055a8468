"""Server-sent events: however they are cut, the same events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepinfer.backends.remote.sse import EventReader, EventTooLongError

STREAM = (
    b"data: one\n\n: comment\n\nevent: x\ndata: two\nid: 7\n\ndata:three\n\n"
    b"data: a\ndata: b\n\n\n\ndata: \n\nretry: 5\n\ndata: last\n\ndata: cut"
)
EVENTS = [b"one", b"two", b"three", b"a\nb", b"", b"last"]


def read(parts: list[bytes], *, max_bytes: int = 1000) -> list[bytes]:
    reader = EventReader(max_bytes)
    return [event for part in parts for event in reader.feed(part)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:stop] for start, stop in pairwise(bounds)]


@given(places=st.lists(st.integers(0, 10_000), max_size=40), breaks=st.sampled_from([b"\n", b"\r\n"]))
def test_cuts_change_nothing(places: list[int], breaks: bytes) -> None:
    assert read(cut(STREAM.replace(b"\n", breaks), places)) == EVENTS


def test_one_read_brings_all_its_events() -> None:
    assert list(EventReader(100).feed(b"data: 1\n\ndata: 2\n\ndata: 3")) == [b"1", b"2"]


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_no_bytes_break_it(parts: list[bytes]) -> None:
    read(parts)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_endless_event_is_refused(size: int) -> None:
    with pytest.raises(EventTooLongError):
        read([b"x" * size] * 300, max_bytes=200)
    assert read([b"data: " + b"x" * 100 + b"\n\n"] * 50, max_bytes=200) == [b"x" * 100] * 50
