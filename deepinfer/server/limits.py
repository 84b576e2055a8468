"""How much one client may ask for: requests a minute and requests at a time. Owns the counts of every client."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deepinfer.server.errors import HttpError


class ClientLimits:
    """A bucket of requests per client that fills evenly over a minute, and a count of those that run. 0 is no limit."""

    def __init__(
        self,
        *,
        requests_per_minute: int = 0,
        concurrent_requests: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_minute = requests_per_minute
        self._at_once = concurrent_requests
        self._clock = clock
        # Requests left, and when that was so.
        self._left: dict[str, tuple[float, float]] = {}
        self._running: Counter[str] = Counter()

    @contextmanager
    def admit(self, client: str) -> Iterator[None]:
        """Count a request while the block runs. Raises a 429 that says when to come again."""
        self.enter(client)
        try:
            yield
        finally:
            self.leave(client)

    def enter(self, client: str) -> None:
        """Count a request, which must `leave`. Raises a 429 that says when to come again."""
        if self._at_once and self._running[client] >= self._at_once:
            message = (
                f"{self._running[client]} requests of this key are running; the limit is {self._at_once} at a time"
            )
            raise HttpError(429, "concurrency_limit_exceeded", message, headers={"retry-after": "1"})
        if self._per_minute:
            self._take(client)
        self._running[client] += 1

    def leave(self, client: str) -> None:
        """Count a request no more."""
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]

    def _take(self, client: str) -> None:
        now = self._clock()
        left, then = self._left.get(client, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
        if left < 1:
            self._left[client] = (left, now)
            wait = math.ceil(round((1 - left) * 60 / self._per_minute, 3))
            message = f"this key may begin {self._per_minute} requests a minute; try again in {wait} s"
            raise HttpError(429, "rate_limit_exceeded", message, headers={"retry-after": str(wait)})
        self._left[client] = (left - 1, now)
