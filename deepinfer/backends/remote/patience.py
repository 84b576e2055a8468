"""How long an upstream may be silent, and how many tokens it may send. Owns the deadline of one call."""

from __future__ import annotations

import time

from deepinfer.backends.remote.faults import UpstreamFaultError, broken
from deepinfer.core import StepOutput


class Patience:
    """Of one call. The clock is `time.monotonic`."""

    def __init__(self, *, first_token_seconds: float, token_seconds: float, max_tokens: int) -> None:
        self.has_tokens = False
        self._is_stopped = False
        self._first_token_seconds = first_token_seconds
        self._token_seconds = token_seconds
        self._max_tokens = self._tokens_left = max_tokens
        self._deadline = time.monotonic() + first_token_seconds

    def stop(self) -> None:
        """Wait without end: the reader is slow, which is not the upstream's fault."""
        self._is_stopped = True

    def resume(self) -> None:
        """Wait for the next token from now on."""
        self._is_stopped = False
        self._deadline = time.monotonic() + self._token_seconds

    def note(self, output: StepOutput) -> None:
        """Take note of an output. Raises `UpstreamFaultError` if it has more tokens than were asked for."""
        count = len(output.token_ids) + output.text_tokens
        if not count and not output.text:
            return
        self._tokens_left -= len(output.token_ids)
        if self._tokens_left < 0:
            raise broken(f"it sent more tokens than the {self._max_tokens} asked for")
        self.has_tokens = True
        self._deadline = time.monotonic() + self._token_seconds

    def is_over(self, now: float) -> bool:
        """Whether the upstream has been silent for too long."""
        return now > self._deadline and not self._is_stopped

    def fault(self) -> UpstreamFaultError:
        """What to say then."""
        seconds, what = self._first_token_seconds, "of the first token"
        if self.has_tokens:
            seconds, what = self._token_seconds, "between tokens"
        return UpstreamFaultError(
            f"no token came in {seconds:g} s (timeout {what})", code="upstream_timeout", retry=True
        )
