"""Kept sequences: the longest shared beginning is found, and the least recently used goes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deepinfer.cache.prefix import PrefixCache

# Few different ids, so that sequences share beginnings.
IDS = st.lists(st.integers(0, 2), max_size=12)


def shared_length(first: list[int], second: list[int]) -> int:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


@given(kept=st.lists(IDS, max_size=8), wanted=IDS)
def test_finds_the_longest_shared_beginning(kept: list[list[int]], wanted: list[int]) -> None:
    cache: PrefixCache[int] = PrefixCache(capacity=8)
    for number, ids in enumerate(kept):
        assert cache.keep(ids, number) == []
    length, place = cache.match(wanted)
    assert length == max((shared_length(ids, wanted) for ids in kept), default=0)
    assert (place is None) == (length == 0)
    if place is not None:
        assert shared_length(kept[place], wanted) == length


def test_long_sequences_that_part_late() -> None:
    cache: PrefixCache[str] = PrefixCache(capacity=2)
    ids = list(range(100_000))
    cache.keep(ids, "kept")
    for place in (0, 1, 65_535, 99_999):
        assert cache.match([*ids[:place], 200_000, *ids[place + 1 :]])[0] == place
    assert cache.match([*ids, 5]) == (100_000, "kept")


def test_the_least_recently_used_goes_first() -> None:
    cache: PrefixCache[str] = PrefixCache(capacity=2)
    assert cache.keep([1, 1], "first") == []
    assert cache.keep([2, 2], "second") == []
    assert cache.match([1, 1, 9]) == (2, "first")
    assert cache.keep([3, 3], "third") == ["second"]
    assert cache.match([2, 2]) == (0, None)
    assert cache.evict() == "first"
    assert cache.evict() == "third"
    assert cache.evict() is None


def test_no_capacity_keeps_nothing() -> None:
    cache: PrefixCache[str] = PrefixCache(capacity=0)
    assert cache.keep([1, 2], "state") == ["state"]
    assert cache.match([1, 2]) == (0, None)
