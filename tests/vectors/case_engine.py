"""Judges cases about the engine: each is carried out by a function, as their steps are words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.engine.support import engine_loop, greedy, prompt, request

Row = dict[str, Any]

_ABORTS = 200


def check(row: Row) -> str | None:
    """What the engine got wrong first, or None."""
    procedure = PROCEDURES.get(row["id"])
    return "nothing carries this case out" if procedure is None else procedure()


def _abort_in_prefill() -> str | None:
    """Aborts at random steps give all blocks back."""
    chosen = random.Random(46283)
    engine = engine_loop()
    engine._scheduler.check_integrity()
    for number in range(_ABORTS):
        for part in range(chosen.randint(1, 3)):
            engine.add(request(f"{number}/{part}", prompt(number + part, chosen.randint(1, 150)), greedy(9)))
        for _ in range(chosen.randint(0, 4)):
            engine.step()
        engine.abort(f"{number}/{chosen.randint(0, 2)}")
        engine._scheduler.check_integrity()
        engine.abort_all()
        if engine.has_work or engine.cache_bytes or engine.running_count:
            return f"abort {number} left {engine.cache_bytes} bytes of cache behind"
    return None


PROCEDURES: dict[str, Callable[[], str | None]] = {"eng-abort-prefill": _abort_in_prefill}
