"""Masks of a step's rows, computed on threads of their own while the model runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepinfer.errors import EngineError
from deepinfer.structured.constraint import Constraint

# Whether each token may come next: [vocabulary], bool. None: all may.
Allowed: TypeAlias = NDArray[np.bool_] | None


class MaskPool:
    """Owns the threads. For one step at a time."""

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        # One processor in two, as the model wants some; beyond four, handing out takes longer than the masks.
        self._thread_count = max(1, min(4, (os.cpu_count() or 1) // 2))
        self._pool = ThreadPoolExecutor(self._thread_count, thread_name_prefix="deepinfer-mask")

    def start(self, constraints: Sequence[Constraint | None]) -> PendingMasks:
        """Begin with the masks of these rows; None stands for a row without constraint.

        Nothing else may use the constraints until the result has been taken.
        """
        rows = [row for row, constraint in enumerate(constraints) if constraint is not None]
        shares = [rows[first :: self._thread_count] for first in range(min(self._thread_count, len(rows)))]
        return PendingMasks(
            len(constraints), [self._pool.submit(self._compute, constraints, share) for share in shares]
        )

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False)

    def _compute(
        self, constraints: Sequence[Constraint | None], rows: Sequence[int]
    ) -> list[tuple[int, Allowed | EngineError]]:
        return [(row, self._row(constraint)) for row in rows if (constraint := constraints[row]) is not None]

    def _row(self, constraint: Constraint) -> Allowed | EngineError:
        if constraint.forced is not None:
            return None
        words = np.full(-(-self._vocabulary_size // 32), 0xFFFFFFFF, dtype="<u4")
        try:
            if not constraint.mask(words):
                return None
        except EngineError as error:
            return error
        return np.unpackbits(words.view(np.uint8), count=self._vocabulary_size, bitorder="little").view(np.bool_)


class PendingMasks:
    """Masks on their way."""

    def __init__(self, count: int, shares: Sequence[Future[list[tuple[int, Allowed | EngineError]]]]) -> None:
        self._count = count
        self._shares = shares

    def result(self) -> list[Allowed | EngineError]:
        """Wait for the masks of all rows; an error stands where a constraint has no next token."""
        masks: list[Allowed | EngineError] = [None] * self._count
        for share in self._shares:
            for row, mask in share.result():
                masks[row] = mask
        return masks
