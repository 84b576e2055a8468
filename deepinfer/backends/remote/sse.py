"""Server-sent events, as far as upstreams use them: bytes in, the data of whole events out. Owns the event begun.

Comments and all fields but `data` mean nothing here. Lines end with LF or CRLF.
"""

from __future__ import annotations

from collections.abc import Sequence


class EventTooLongError(Exception):
    """An event has more bytes than are taken of one."""


class EventReader:
    """Cuts a stream into events of at most `max_bytes`; what is done for one does not grow with those before it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._begun = bytearray()
        # Up to here there is no end of an event in it.
        self._searched = 0
        self._half_break = False

    def feed(self, data: bytes) -> Sequence[bytes]:
        """Take what one read brought and return the data of the events that it completes."""
        if self._half_break or b"\r" in data:
            data = self._with_plain_breaks(data)
        if not self._begun:
            end = data.rfind(b"\n\n")
            if end >= 0:
                self._keep(data[end + 2 :])
                return _data_of(data[:end])
            self._keep(data)
            return ()
        self._begun += data
        end = self._begun.rfind(b"\n\n", self._searched)
        if end < 0:
            self._check()
            return ()
        whole = bytes(self._begun[:end])
        self._keep(bytes(self._begun[end + 2 :]))
        return _data_of(whole)

    def _keep(self, rest: bytes) -> None:
        self._begun = bytearray(rest)
        self._check()

    def _check(self) -> None:
        if len(self._begun) > self._max_bytes:
            raise EventTooLongError
        self._searched = max(0, len(self._begun) - 1)

    def _with_plain_breaks(self, data: bytes) -> bytes:
        if self._half_break:
            data = b"\r" + data
        # The other half of a line break may be in the next read.
        self._half_break = data.endswith(b"\r")
        return (data[:-1] if self._half_break else data).replace(b"\r\n", b"\n")


def _data_of(blocks: bytes) -> list[bytes]:
    found = []
    for block in blocks.split(b"\n\n"):
        if block.startswith(b"data: ") and b"\n" not in block:
            found.append(block[6:])
        elif lines := [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]:
            found.append(b"\n".join(lines))
    return found
