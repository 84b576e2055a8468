"""The text of one answer as it grows: tokens to characters, held back where a stop text may have begun."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import deepseek_recipe as recipe

Alternatives = Sequence[tuple[int, float]]

_UTF8: Final = getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token of an answer: its id, where its text starts, and its log probability with the likeliest alternatives."""

    id: int
    offset: int
    logprob: float | None = None
    top: Alternatives = ()


@dataclass(slots=True)
class Growth:
    """What became ready to be shown: text, and the tokens that it is made of."""

    text: str = ""
    tokens: list[TokenText] = field(default_factory=list)


class AnswerText:
    """Text without control tokens, up to the first of `stops`. What is done for a token does not grow with the text."""

    def __init__(self, tokenizer: recipe.Tokenizer, stops: Sequence[str], *, offset: int = 0) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._decoder = _UTF8("replace")
        self._held = ""
        self._shown = self._decoded = offset
        self._waiting: list[TokenText] = []
        self.stopped = False

    def push(self, ids: Sequence[int], logprobs: Sequence[tuple[float, Alternatives]] | None) -> Growth:
        """Take tokens. After a stop text nothing more is taken."""
        growth = Growth()
        for place, id in enumerate(ids):
            if self.stopped:
                break
            data = self._tokenizer.decode_bytes([id])
            if self._is_control(id, data):
                continue
            logprob, top = (None, ()) if logprobs is None else logprobs[place]
            self._waiting.append(TokenText(id, self._decoded, logprob, top))
            self._take(self._decoder.decode(data), growth)
        return growth

    def push_text(self, text: str) -> Growth:
        """Take text of an engine that has no tokens."""
        growth = Growth()
        if not self.stopped:
            self._take(text, growth)
        return growth

    def finish(self) -> Growth:
        """Show all that was held back."""
        growth = Growth()
        if not self.stopped:
            self._take(self._decoder.decode(b"", final=True), growth)
            growth.text += self._held
            self._held = ""
            growth.tokens += self._waiting
        self._waiting = []
        return growth

    def _is_control(self, id: int, data: bytes) -> bool:
        return data.startswith(b"<") and self._tokenizer.special_id(data.decode("utf-8", "replace")) == id

    def _take(self, text: str, growth: Growth) -> None:
        self._decoded += len(text)
        self._held += text
        end = self._first_stop()
        if end is None:
            end = len(self._held) - self._length_held()
        else:
            self.stopped = True
        growth.text += self._held[:end]
        self._held = self._held[end:]
        self._shown += end
        ready = len(self._waiting)
        if self._held:
            ready = sum(token.offset < self._shown for token in self._waiting)
        growth.tokens += self._waiting[:ready]
        del self._waiting[:ready]

    def _first_stop(self) -> int | None:
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        return min(places, default=None)

    def _length_held(self) -> int:
        """Length of the longest end of the text with which a stop text begins."""
        longest = max(map(len, self._stops), default=1) - 1
        lengths = range(min(longest, len(self._held)), 0, -1)
        return next((length for length in lengths if self._may_stop(self._held[-length:])), 0)

    def _may_stop(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self._stops)
