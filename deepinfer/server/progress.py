"""A line on standard error while a model loads: how far it is, and for how long it has been at it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TextIO

from deepinfer.core import Health

_WIDTH: Final = 30
_SECONDS: Final = 0.2


@asynccontextmanager
async def loading_bar(
    name: str, health: Callable[[], Health], *, stream: TextIO = sys.stderr, seconds: float = _SECONDS
) -> AsyncIterator[None]:
    """Show a bar while the block runs, where `stream` is a terminal; elsewhere nothing."""
    if not stream.isatty():
        yield
        return
    drawing = asyncio.create_task(_draw(name, health, stream, seconds))
    try:
        yield
    finally:
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)
        stream.write("\r\x1b[K")
        stream.flush()


async def _draw(name: str, health: Callable[[], Health], stream: TextIO, seconds: float) -> None:
    started = time.monotonic()
    while True:
        stream.write(f"\r\x1b[K{render(name, health().progress, time.monotonic() - started)}")
        stream.flush()
        await asyncio.sleep(seconds)


def render(name: str, progress: float | None, seconds: float) -> str:
    """One state of the bar; `progress` goes from 0 to 1, or is None where the engine cannot tell."""
    if progress is None:
        return f"loading {name}, {seconds:.0f} s"
    filled = round(_WIDTH * min(max(progress, 0.0), 1.0))
    return f"loading {name} [{'=' * filled}{' ' * (_WIDTH - filled)}] {100 * progress:.0f} %, {seconds:.0f} s"
