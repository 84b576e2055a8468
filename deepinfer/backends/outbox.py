"""Outputs between an engine and the one who reads the answer, both in the event loop's thread. Owns those that wait.

What waits is handed over as one output, so a reader that falls behind gets more at a time. When too much waits, the
sender is told, and again when it may go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from deepinfer.core import StepOutput
from deepinfer.errors import EngineError

# Tokens, or characters of text; one read of a socket may bring a little more.
_MAX_WAITING: Final = 1024


def do_nothing() -> None:
    """What an outbox calls when nobody waits for its reader."""


class Outbox:
    """A queue with one reader. `on_drained` is called when the reader has taken what was too much."""

    def __init__(self) -> None:
        self.on_drained: Callable[[], object] = do_nothing
        self._waiting: list[StepOutput] = []
        self._weight = 0
        self._error: EngineError | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the sender should pause."""
        return self._weight > _MAX_WAITING

    def put(self, output: StepOutput) -> None:
        """Add an output."""
        self._waiting.append(output)
        self._weight += len(output.token_ids) + (0 if output.text is None else len(output.text))
        self._wake()

    def fail(self, error: EngineError) -> None:
        """End with an error, once the reader has taken what waits."""
        self._error = error
        self._wake()

    async def get(self) -> StepOutput | EngineError:
        """Wait for outputs and take all there are as one, or the error behind them. Loses nothing if cancelled."""
        while not self._waiting:
            if self._error is not None:
                return self._error
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        waiting, self._waiting = self._waiting, []
        was_full, self._weight = self.is_full, 0
        if was_full:
            self.on_drained()
        return waiting[0] if len(waiting) == 1 else _joined(waiting)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _joined(outputs: list[StepOutput]) -> StepOutput:
    with_logprobs = any(output.logprobs is not None for output in outputs)
    with_text = any(output.text is not None for output in outputs)
    cached = [output.cached_tokens for output in outputs if output.cached_tokens is not None]
    return StepOutput(
        token_ids=tuple(token_id for output in outputs for token_id in output.token_ids),
        text="".join(output.text or "" for output in outputs) if with_text else None,
        text_tokens=sum(output.text_tokens for output in outputs),
        logprobs=tuple(entry for output in outputs for entry in output.logprobs or ()) if with_logprobs else None,
        finish_reason=outputs[-1].finish_reason,
        cached_tokens=cached[-1] if cached else None,
    )
