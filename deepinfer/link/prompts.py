"""What both ends of a link remember of the prompts that went over it, so that no id is sent twice.

A prompt goes as the beginning of an earlier one and the ids that follow it, with a hash of the whole. Both ends forget
by the same rule, and the upstream says so if it does not know what a prompt goes on from: it is then sent whole. So an
error in this costs time and nothing else. Knows no frames and no requests.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy

from deepinfer.link.ids import ID_BYTES

# Bytes of ids that each end of a link keeps; a prompt longer than an eighth of it is not kept.
KEPT_BYTES: Final = 32 * 1024 * 1024
_MAX_PROMPT: Final = KEPT_BYTES // 8
# Shorter ones are quickly sent.
_MIN_PROMPT: Final = 256 * ID_BYTES
# The last ids of a prompt open the answer, and later prompts may have others in their place. One that shares all before
# them takes the place of what it goes on from.
_OPENER: Final = 64 * ID_BYTES
# Prompts are found by what stands before a multiple of this: the last such place of each, and rarer ones.
_STEP: Final = 64 * ID_BYTES
_RARE: Final = 4096 * ID_BYTES
_WINDOW: Final = 16 * ID_BYTES
_MAX_LOOKS: Final = 256

_Key = tuple[int, bytes]


class Known:
    """A prompt. Its first `stem` bytes are what later ones probably share; `state` is their hash, once it is known."""

    __slots__ = ("ids", "keys", "state", "stem")

    def __init__(self, ids: bytes) -> None:
        self.ids = ids
        self.stem = max(0, len(ids) - _OPENER)
        self.state: Any = None
        # By which it is found.
        self.keys: list[_Key] = []

    def digest(self, base: Known | None = None) -> bytes:
        """The hash of the whole. Costs only what follows the stem of `base`, if there is one that this begins with."""
        if base is None or base.state is None:
            state, start = hashlib.sha256(), 0
        else:
            state, start = base.state.copy(), base.stem
            self.stem = max(self.stem, start)
        ids = memoryview(self.ids)
        state.update(ids[start : self.stem])
        self.state = state
        whole = state.copy()
        whole.update(ids[self.stem :])
        digest: bytes = whole.digest()
        return digest


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a prompt goes on from: whose ids, how many bytes of them, and the hash of the new prompt."""

    number: int
    length: int
    digest: bytes


class PromptMemory:
    """Prompts by the numbers of their requests, the least recently used first."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Known] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def join(self, number: int, beginning: Beginning | None, ids: bytes) -> bytes | None:
        """The whole prompt of a request, which is remembered; None if what it goes on from is not known."""
        if beginning is None:
            self.keep(number, Known(ids), None)
            return ids
        base = self._known.get(beginning.number)
        if base is None or not 0 <= beginning.length <= len(base.ids):
            return None
        known = Known(b"".join((memoryview(base.ids)[: beginning.length], ids)))
        if known.digest(base if beginning.length == base.stem else None) != beginning.digest:
            return None
        self.keep(number, known, beginning)
        return known.ids

    def keep(self, number: int, known: Known, beginning: Beginning | None) -> None:
        """Remember the prompt of a request."""
        if beginning is not None:
            if beginning.length >= len(self._known[beginning.number].ids) - _OPENER:
                self.forget(beginning.number)
            else:
                self._known.move_to_end(beginning.number)
        if _MIN_PROMPT <= len(known.ids) <= _MAX_PROMPT:
            self._add(number, known)

    def prepare(self, number: int) -> None:
        """Compute the hash of a prompt that went whole, so that the next does not wait for it."""
        known = self._known.get(number)
        if known is not None:
            known.digest()

    def forget(self, number: int) -> None:
        """Remember a prompt no more."""
        known = self._known.pop(number, None)
        if known is not None:
            self._bytes -= len(known.ids)

    def _add(self, number: int, known: Known) -> None:
        self._known[number] = known
        self._bytes += len(known.ids)
        while self._bytes > KEPT_BYTES:
            self.forget(next(iter(self._known)))


class SentPrompts(PromptMemory):
    """The gateway's end: finds what a prompt has in common with earlier ones, in a time that hardly grows with them."""

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[_Key, int] = {}

    def cut(self, ids: bytes) -> tuple[Known, Beginning | None]:
        """What a prompt goes on from. It is to be kept once it is sent."""
        known, place = Known(ids), self._find(ids)
        base = None if place is None else self._known[place]
        length = 0 if base is None else _shared_bytes(base, ids)
        if place is None or base is None or length < _MIN_PROMPT:
            return known, None
        return known, Beginning(place, length, known.digest(base if length == base.stem else None))

    def forget(self, number: int) -> None:
        known = self._known.get(number)
        if known is not None:
            for key in known.keys:
                if self._index.get(key) == number:
                    del self._index[key]
        super().forget(number)

    def _add(self, number: int, known: Known) -> None:
        known.keys = _keys(known.ids)
        for key in known.keys:
            self._index[key] = number
        super()._add(number, known)

    def _find(self, ids: bytes) -> int | None:
        last = len(ids) // _STEP * _STEP
        first = max(0, last - _MAX_LOOKS * _STEP)
        for place in chain(range(last, first, -_STEP), range(first // _RARE * _RARE, 0, -_RARE)):
            found = self._index.get((place, ids[place - _WINDOW : place]))
            if found is not None:
                return found
        return None


def _keys(ids: bytes) -> list[_Key]:
    last = (len(ids) - _OPENER) // _STEP * _STEP
    return [(place, ids[place - _WINDOW : place]) for place in (last, *range(_RARE, len(ids), _RARE))]


def _shared_bytes(base: Known, ids: bytes) -> int:
    """How much a prompt has in common with one before it, at least: all up to its stem is not looked at further."""
    if ids.startswith(memoryview(base.ids)[: base.stem]):
        return base.stem
    count = min(len(base.ids), len(ids)) // ID_BYTES
    different = numpy.not_equal(*(numpy.frombuffer(part, numpy.uint32, count) for part in (base.ids, ids)))
    return ID_BYTES * int(different.argmax())
