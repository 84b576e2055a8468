"""Owns which finished sequences are kept, so that the next request need not compute a prompt's known beginning again.

Knows no tensors, blocks or policy: what a sequence left behind is the caller's. The last `capacity` sequences are kept,
each used one counting as new. A match costs one comparison of an id per kept sequence, and few of whole sequences.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy

_ID_BYTES: Final = 4

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[State]):
    # Four bytes an id.
    ids: bytes
    state: State


class PrefixCache(Generic[State]):
    """Token ids of kept sequences, each with a state that stands for what was computed from them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # The least recently used first.
        self._kept: list[_Kept[State]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def match(self, token_ids: Sequence[int]) -> tuple[int, State | None]:
        """Find the longest beginning of `token_ids` that a kept sequence shares: its length and that one's state."""
        wanted = packed(token_ids).tobytes()
        shared, place = 0, -1
        for index, kept in enumerate(self._kept):
            if shared == len(wanted):
                break
            more = shared + _ID_BYTES
            # Most sequences part where the best so far does, if not before: only one that shares more is measured.
            if kept.ids.startswith(wanted[shared:more], shared) and kept.ids.startswith(wanted[:more]):
                shared, place = _shared_bytes(wanted, kept.ids, more), index
        if place < 0:
            return 0, None
        best = self._kept.pop(place)
        self._kept.append(best)
        return shared // _ID_BYTES, best.state

    def keep(self, token_ids: Sequence[int], state: State) -> list[State]:
        """Keep a sequence. Returns the states that are not kept any more, this one among them if `capacity` is 0."""
        self._kept.append(_Kept(packed(token_ids).tobytes(), state))
        return [self._kept.pop(0).state for _ in range(len(self._kept) - self._capacity)]

    def evict(self) -> State | None:
        """Forget the least recently used sequence and return its state; None when nothing is kept."""
        return self._kept.pop(0).state if self._kept else None


def packed(*parts: Sequence[int]) -> memoryview:
    """Put ids one behind the other, four bytes each. Parts that are packed already cost next to nothing."""
    ids = array("I")
    for part in parts:
        if isinstance(part, memoryview) and part.format == "I":
            ids.frombytes(part.cast("B"))
        else:
            ids.extend(part)
    return memoryview(ids)


def _shared_bytes(first: bytes, second: bytes, known: int) -> int:
    """Length of the ids that both begin with, of which `known` bytes are known to agree."""
    count = (min(len(first), len(second)) - known) // _ID_BYTES
    parts = (numpy.frombuffer(ids, numpy.uint32, count, known) for ids in (first, second))
    different = numpy.not_equal(*parts)
    return known + _ID_BYTES * (int(different.argmax()) if different.any() else count)
