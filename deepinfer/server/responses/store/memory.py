"""Responses in the memory of this process, gone with it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from deepinfer.server.responses.store.interface import Limits, StoredResponse, Usage


class MemoryResponseStore:
    """Owns what it keeps. Unfinished responses are not kept: whoever makes them ends with them."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        # By age, with the time of each.
        self._responses: OrderedDict[tuple[str, str], tuple[float, StoredResponse]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def usage(self) -> Usage:
        """What is kept."""
        return Usage(len(self._responses), self._bytes)

    def put(self, owner: str, response: StoredResponse) -> None:
        """Keep a response. Raises `StoreError` if it does not fit at all."""
        if response.unfinished:
            return
        self._limits.check_fits(response)
        with self._lock:
            self._forget((owner, response.id))
            self._responses[owner, response.id] = self._clock(), response
            self._bytes += response.size
            self._forget_old()
            while self._limits.is_over(self.usage):
                self._forget(next(iter(self._responses)))

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Find a response."""
        with self._lock:
            self._forget_old()
            _, found = self._responses.get((owner, response_id), (None, None))
            return found

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response."""
        with self._lock:
            self._forget_old()
            return self._forget((owner, response_id))

    def renew(self, keys: Iterable[tuple[str, str]]) -> None:
        """Nothing to do: nobody else reads this store."""

    def close(self) -> None:
        """Nothing to let go of."""

    def _forget_old(self) -> None:
        if self._limits.max_age is None:
            return
        oldest = self._clock() - self._limits.max_age
        while self._responses and next(iter(self._responses.values()))[0] <= oldest:
            self._forget(next(iter(self._responses)))

    def _forget(self, key: tuple[str, str]) -> bool:
        _, response = self._responses.pop(key, (None, None))
        if response is not None:
            self._bytes -= response.size
        return response is not None
