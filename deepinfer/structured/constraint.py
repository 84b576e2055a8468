"""What the engine knows of a constraint. One of them belongs to one sequence, and is used by one thread at a time."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Bit `id` of a row of little-endian words tells whether a token may come next: [words], uint32.
Bits: TypeAlias = NDArray[np.uint32]


class Constraint(Protocol):
    """Says what may come next, and follows what came."""

    @property
    def forced(self) -> int | None:
        """The token that comes next, whatever the logits; None while there is a choice."""

    @property
    def waiting(self) -> bool:
        """Whether its grammar has woken and is not here yet; until `provide`, no token may be chosen or accepted."""

    def provide(self, matcher: Matcher | None) -> None:
        """Go on with the grammar that was waited for, at its beginning; None: without it."""

    def mask(self, bits: Bits) -> bool:
        """Say which tokens may come next: fill `bits`, all ones before. False: any, and `bits` is as it was.

        Raises `EngineError` where none may, or where finding out takes too much.
        """

    def accept(self, token_id: int) -> None:
        """Take note of the next token. Raises `EngineError` for one that may not come next."""

    def rollback(self, count: int) -> None:
        """Forget the last `count` tokens, as if they had never been accepted.

        Raises ValueError if there were not so many.
        """


class Matcher(Protocol):
    """A grammar at one place of an answer; like a constraint that is always awake."""

    def mask(self, bits: Bits) -> None:
        """Fill `bits` with the tokens that may come next. Raises `EngineError` as `Constraint.mask` does."""

    def accept(self, token_id: int) -> None:
        """Take note of the next token. Raises `EngineError` for one that may not come next."""

    def rollback(self, count: int) -> None:
        """Forget the last `count` tokens."""
