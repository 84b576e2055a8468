"""Frames: a length, a kind, the number of a request, and a payload of MessagePack. Owns the frame begun."""

from __future__ import annotations

from collections.abc import Container
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

# Bytes of the payload, kind, number; the lowest byte first.
_HEAD: Final = Struct("<IBQ")


class Kind(IntEnum):
    """What a frame is. The first four go to the upstream, the others come from it."""

    SUBMIT = 1
    ABORT = 2
    PAUSE = 3
    RESUME = 4
    OUTPUT = 16
    FAILED = 17
    # No new requests are taken; those that run go on. Its number says nothing.
    LEAVING = 18
    # A sign of life, where there is nothing else to send. Its number says nothing.
    ALIVE = 19


ASKING: Final = frozenset({Kind.SUBMIT, Kind.ABORT, Kind.PAUSE, Kind.RESUME})
ANSWERING: Final = frozenset({Kind.OUTPUT, Kind.FAILED, Kind.LEAVING, Kind.ALIVE})


class Frame(NamedTuple):
    """One frame. `payload`, a part of what was read, is None if it was longer than is taken."""

    kind: int
    number: int
    payload: memoryview | None


class FrameError(Exception):
    """What comes are no frames, so nothing behind it can be read."""


def frame(kind: Kind, number: int, payload: bytes = b"") -> bytes:
    """Write a frame."""
    return head(kind, number, len(payload)) + payload


def head(kind: Kind, number: int, length: int) -> bytes:
    """Write what comes before a payload of so many bytes."""
    return _HEAD.pack(length, kind, number)


class FrameReader:
    """Cuts a stream into frames of these `kinds`. Of a payload longer than `max_bytes` nothing is held."""

    def __init__(self, kinds: Container[int], max_bytes: int) -> None:
        self._kinds = kinds
        self._max_bytes = max_bytes
        self._begun = bytearray()
        # Bytes of a payload that is too long which are still to come.
        self._skipped = 0
        # Length of what must be there before anything more can be read.
        self._wanted = _HEAD.size

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._begun or self._skipped)

    def feed(self, data: bytes | bytearray) -> list[Frame]:
        """Take what one read brought and return the frames that it completes. Raises `FrameError`."""
        if self._skipped:
            passed = min(self._skipped, len(data))
            self._skipped -= passed
            data = data[passed:]
        if self._begun:
            self._begun += data
            if len(self._begun) < self._wanted:
                return []
            data, self._begun = self._begun, bytearray()
        frames: list[Frame] = []
        view, place, size = memoryview(data), 0, len(data)
        self._wanted = _HEAD.size
        while size - place >= _HEAD.size:
            length, kind, number = _HEAD.unpack_from(data, place)
            if kind not in self._kinds:
                raise FrameError(f"a frame of the kind {kind}, which is none that may come here")
            start = place + _HEAD.size
            if length > self._max_bytes:
                frames.append(Frame(kind, number, None))
                place = min(size, start + length)
                self._skipped = start + length - place
            elif start + length > size:
                self._wanted = _HEAD.size + length
                break
            else:
                place = start + length
                frames.append(Frame(kind, number, view[start:place]))
        self._begun += view[place:]
        return frames
