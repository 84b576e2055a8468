"""What turns an engine's outputs into an answer's bytes, as its users see it: the codec's decoder is one of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import deepseek_recipe as recipe

Logprobs = Sequence[tuple[float, Sequence[tuple[int, float]]]]


class AnswerDecoder(Protocol):
    """One answer on its way out. Each call returns the bytes that are ready for a stream; `response` is their fold."""

    def start(self, *, prompt_tokens: int = 0, cached_tokens: int = 0, fingerprint: str | None = None) -> bytes:
        """Begin the answer."""

    def set_cached_tokens(self, cached_tokens: int) -> None:
        """Set how many tokens of the prompt were found in a cache, where that is known only after the start."""

    def set_time(self, seconds: int) -> None:
        """Set the time that closing events report, in seconds since 1970."""

    def push(self, token_ids: Sequence[int], logprobs: Logprobs | None = None, choice: int = 0) -> bytes:
        """Take tokens of a choice."""

    def push_text(self, text: str, token_count: int | None = None, choice: int = 0) -> bytes:
        """Take text of a choice that stands for `token_count` tokens."""

    def finish(self, reason: str | None, choice: int = 0) -> bytes:
        """End a choice."""

    def fail(self, error: str | Exception) -> bytes:
        """End the answer with an error."""

    def keep_alive(self) -> bytes:
        """Bytes that only keep the connection alive."""

    def response(self) -> bytes:
        """The body of the answer that is not streamed."""

    def events(self) -> list[recipe.Event]:
        """Typed events of the latest `push` or `finish`."""

    def is_finished(self, choice: int = 0) -> bool:
        """Whether a choice has ended."""
