"""When a grammar holds and when thinking ends: the constraint of one sequence.

An answer may begin with thinking, in which nothing is barred but ending; then comes the grammar, at once or after the
model wrote a certain token. All of it follows from three places in the answer, so a rollback only moves these.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from deepinfer.core import Grammar, ThinkingLimit
from deepinfer.structured.constraint import Bits, Matcher


class Guide:
    """`Constraint` from a grammar, a limit to thinking, or both. `ending_ids` are the tokens that end an answer.

    The matcher of the grammar is provided later, and waited for once the grammar wakes, which may be at once.
    """

    def __init__(
        self, grammar: Grammar | None, thinking_limit: ThinkingLimit | None, *, ending_ids: Collection[int]
    ) -> None:
        self._grammar = grammar
        self._matcher: Matcher | None = None
        self._limit = thinking_limit
        self._ending_ids = tuple(ending_ids)
        self._thinking_end = _thinking_end(grammar, thinking_limit)
        self._length = 0
        # Tokens before the answer proper, and before what the grammar describes; None while not known yet.
        self._thought: int | None = 0 if self._thinking_end is None else None
        self._asleep: int | None = 0 if self._wakes_with_the_answer and self._thought == 0 else None

    @property
    def _wakes_with_the_answer(self) -> bool:
        return self._grammar is not None and self._grammar.trigger is None

    @property
    def forced(self) -> int | None:
        """The end of thinking, once its limit is used up."""
        if self._limit is not None and self._thought is None and self._length >= self._limit.tokens:
            return self._limit.end_token_id
        return None

    @property
    def waiting(self) -> bool:
        """Whether the grammar has woken and its matcher is not here yet."""
        return self._grammar is not None and self._matcher is None and self._asleep is not None

    def provide(self, matcher: Matcher | None) -> None:
        """Go on with the matcher that was waited for, at its beginning; None: without the grammar."""
        self._matcher = matcher
        if matcher is None:
            self._grammar = None

    def mask(self, bits: Bits) -> bool:
        """Bar what the grammar bars; before it holds, bar the end of an answer that must match it."""
        if self._matcher is not None and self._asleep is not None:
            self._matcher.mask(bits)
            return True
        if self._grammar is not None and self._grammar.binding:
            for token_id in self._ending_ids:
                bits[token_id // 32] &= ~np.uint32(1 << token_id % 32)
            return True
        return False

    def accept(self, token_id: int) -> None:
        """Take note of the next token. Raises `EngineError` for one that the grammar bars."""
        if self._matcher is not None and self._asleep is not None:
            self._matcher.accept(token_id)
        self._length += 1
        if self._thought is None:
            if token_id == self._thinking_end:
                self._thought = self._length
                if self._wakes_with_the_answer:
                    self._asleep = self._length
        elif self._asleep is None and self._grammar is not None and token_id == self._grammar.trigger:
            self._asleep = self._length

    def rollback(self, count: int) -> None:
        """Forget the last `count` tokens. Raises ValueError if there were not so many."""
        length = self._length - count
        if count < 0 or length < 0:
            raise ValueError(f"cannot take back {count} of {self._length} tokens")
        if self._asleep is not None:
            if self._matcher is not None:
                self._matcher.rollback(self._length - max(length, self._asleep))
            if length < self._asleep:
                self._asleep = None
        if self._thought is not None and length < self._thought:
            self._thought = None
        self._length = length


def _thinking_end(grammar: Grammar | None, limit: ThinkingLimit | None) -> int | None:
    """Token that ends the thinking which the answer begins with; None if it begins with the answer proper."""
    if grammar is None:
        return None if limit is None else limit.end_token_id
    return grammar.start_after
