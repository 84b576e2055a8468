"""The bar that shows that a model loads."""

from __future__ import annotations

import asyncio
import io

from deepinfer.core import Health
from deepinfer.server.progress import loading_bar, render


class Terminal(io.StringIO):
    """A stream that says that somebody looks at it."""

    def isatty(self) -> bool:
        return True


def health(progress: float | None) -> Health:
    return Health(ready=False, running=0, waiting=0, cache_bytes=0, progress=progress)


def test_a_bar_shows_the_share_that_is_loaded() -> None:
    assert render("m", 0.5, 3.2) == f"loading m [{'=' * 15}{' ' * 15}] 50 %, 3 s"
    assert render("m", 1.0, 3.2) == f"loading m [{'=' * 30}] 100 %, 3 s"
    assert render("m", None, 61) == "loading m, 61 s"


async def test_the_bar_is_drawn_while_the_model_loads_and_then_gone() -> None:
    states = iter([0.0, 0.25, 0.75])
    terminal = Terminal()
    async with loading_bar("m", lambda: health(next(states, 1.0)), stream=terminal, seconds=0.001):
        while "75 %" not in terminal.getvalue():
            await asyncio.sleep(0.001)
    drawn = terminal.getvalue()
    assert "25 %" in drawn and drawn.endswith("\r\x1b[K")
    await asyncio.sleep(0.01)
    assert terminal.getvalue() == drawn


async def test_nothing_is_drawn_where_nobody_looks() -> None:
    stream = io.StringIO()
    async with loading_bar("m", lambda: health(0.5), stream=stream, seconds=0.001):
        await asyncio.sleep(0.01)
    assert stream.getvalue() == ""
