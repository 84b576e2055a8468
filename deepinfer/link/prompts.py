"""What both ends of a link remember of the prompts that went over it, so that no id is sent twice.

A prompt goes as the beginning of an earlier one and the ids that follow it, with a hash of the whole. Both ends forget
by the same rule, and the upstream says so if it does not know what a prompt goes on from: it is then sent whole. So an
error in this costs time and nothing else. Knows no frames and no requests.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy

from deepinfer.link.ids import ID_BYTES

# Bytes of ids that each end of a link keeps; a prompt longer than an eighth of it is not kept.
KEPT_BYTES: Final = 32 * 1024 * 1024
_MAX_PROMPT: Final = KEPT_BYTES // 8
# Shorter ones are quickly sent.
_MIN_PROMPT: Final = 256 * ID_BYTES
# The last ids of a prompt open the answer, and later prompts may have others in their place. One that shares all but
# them takes the place of what it goes on from.
_OPENER: Final = 64 * ID_BYTES
# States of the hash are kept at such distances.
_STRIDE: Final = 2048 * ID_BYTES
# Prompts are found by what stands before a multiple of this: the last such place of each, and rarer ones.
_STEP: Final = 64 * ID_BYTES
_RARE: Final = 4096 * ID_BYTES
_WINDOW: Final = 16 * ID_BYTES
_MAX_LOOKS: Final = 256

_Key = tuple[int, bytes]


@dataclass(slots=True)
class _Known:
    """A prompt, and the states of its hash after each stride, as far as they were needed."""

    ids: bytes
    states: list[Any] = field(default_factory=lambda: [hashlib.sha256()])

    def digest(self) -> bytes:
        """The hash of the whole. Costs only what no state is known of."""
        for place in range(len(self.states) * _STRIDE, len(self.ids) + 1, _STRIDE):
            state = self.states[-1].copy()
            state.update(self.ids[place - _STRIDE : place])
            self.states.append(state)
        state = self.states[-1].copy()
        state.update(self.ids[(len(self.states) - 1) * _STRIDE :])
        digest: bytes = state.digest()
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
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def join(self, number: int, beginning: Beginning | None, ids: bytes) -> bytes | None:
        """The whole prompt of a request, which is remembered; None if what it goes on from is not known."""
        if beginning is None:
            self._add(number, _Known(ids))
            return ids
        base = self._known.get(beginning.number)
        if base is None or not 0 <= beginning.length <= len(base.ids):
            return None
        known = _after(base, beginning.length, b"".join((memoryview(base.ids)[: beginning.length], ids)))
        if known.digest() != beginning.digest:
            return None
        self._replace(number, known, beginning)
        return known.ids

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

    def _replace(self, number: int, known: _Known, beginning: Beginning) -> None:
        if beginning.length >= len(self._known[beginning.number].ids) - _OPENER:
            self.forget(beginning.number)
        else:
            self._known.move_to_end(beginning.number)
        self._add(number, known)

    def _add(self, number: int, known: _Known) -> bool:
        if not _MIN_PROMPT <= len(known.ids) <= _MAX_PROMPT:
            return False
        self._known[number] = known
        self._bytes += len(known.ids)
        while self._bytes > KEPT_BYTES:
            self.forget(next(iter(self._known)))
        return True


class SentPrompts(PromptMemory):
    """The gateway's end: finds what a prompt has in common with earlier ones, in a time that hardly grows with them."""

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[_Key, int] = {}

    def cut(self, number: int, ids: bytes) -> tuple[Beginning | None, bytes]:
        """What the prompt of a request goes on from, and the ids that are to be sent. Remembers it."""
        place = self._find(ids)
        base = None if place is None else self._known[place]
        length = 0 if base is None else _shared_bytes(base.ids, ids)
        if place is None or base is None or length < _MIN_PROMPT:
            self._add(number, _Known(ids))
            return None, ids
        known = _after(base, length, ids)
        beginning = Beginning(place, length, known.digest())
        self._replace(number, known, beginning)
        return beginning, ids[length:]

    def forget(self, number: int) -> None:
        known = self._known.get(number)
        if known is not None:
            for key in _keys(known.ids):
                if self._index.get(key) == number:
                    del self._index[key]
        super().forget(number)

    def _add(self, number: int, known: _Known) -> bool:
        is_kept = super()._add(number, known)
        if is_kept:
            self._index.update(dict.fromkeys(_keys(known.ids), number))
        return is_kept

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


def _after(base: _Known, length: int, ids: bytes) -> _Known:
    """A prompt that begins with so many bytes of another: their hashes have as many states in common."""
    return _Known(ids, base.states[: length // _STRIDE + 1])


def _shared_bytes(first: bytes, second: bytes) -> int:
    count = min(len(first), len(second)) // ID_BYTES
    different = numpy.not_equal(*(numpy.frombuffer(ids, numpy.uint32, count) for ids in (first, second)))
    return ID_BYTES * (int(different.argmax()) if different.any() else count)
