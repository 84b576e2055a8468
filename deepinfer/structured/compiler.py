"""Compiles grammars beside everything else: owns the threads that do it, their checking processes, and the cache.

A grammar is checked in another process first (`checker.py` says why), then compiled here. Results are kept by content,
refusals too, so that a grammar costs once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

from deepinfer.core import Vocabulary
from deepinfer.errors import EngineError
from deepinfer.structured.check import CheckedToDeathError, Checker, CheckerEndedError
from deepinfer.structured.guidance import CompiledGrammar, Guidance, refusal, too_complex
from deepinfer.structured.limits import CHECK_SECONDS, MAX_TEXT_BYTES

logger = logging.getLogger(__name__)

Compiled: TypeAlias = Future[CompiledGrammar]

_THREADS: Final = 2
# Grammars kept, with what their lexers have found out.
_CACHED: Final = 64
# Longest wait for a thread: with the time to check, less than the silence after which a stream begins.
_QUEUE_SECONDS: Final = 4.0


class GrammarCompiler:
    """A bounded cache of grammars of one vocabulary. For any thread."""

    def __init__(self, vocabulary: Vocabulary, *, check_seconds: float = CHECK_SECONDS) -> None:
        """Takes about 0.4 s for 129,280 tokens, and lets no other thread run meanwhile: not for a running server."""
        self._guidance = Guidance(vocabulary)
        self._new_checker: Callable[[], Checker] = lambda: Checker(
            len(vocabulary.token_bytes),
            sorted(vocabulary.control_ids),
            vocabulary.end_token_id,
            seconds=check_seconds,
        )
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Compiled] = OrderedDict()
        self._checkers: list[Checker] = []
        self._closed = False
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="deepinfer-grammar")

    def compile(self, text: str) -> Compiled:
        """Compile a grammar, or find it in the cache. Returns at once.

        The result raises `EngineError`: `invalid_grammar`, `grammar_too_complex` or `grammar_dead_end` for a grammar at
        fault, `engine_overloaded` if too many others are being compiled.
        """
        with self._lock:
            found = self._cache.get(text)
            if found is not None and not _is_passing(found):
                self._cache.move_to_end(text)
                return found
            self._cache[text] = compiled = self._pool.submit(self._run, text, time.monotonic())
            while len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
            return compiled

    def warm(self) -> None:
        """Start a checking process and wait for it, so that no request has to."""
        self.compile("start:").exception()

    def close(self) -> None:
        """End threads and processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            checkers, self._checkers = self._checkers, []
        for checker in checkers:
            checker.end()

    def _run(self, text: str, queued: float) -> CompiledGrammar:
        if time.monotonic() - queued > _QUEUE_SECONDS:
            raise EngineError("too many grammars are being compiled; send the request again", code="engine_overloaded")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise refusal(f"character {error.start} is half of a surrogate pair") from None
        if size > MAX_TEXT_BYTES:
            raise too_complex(f"it takes {size} bytes, and {MAX_TEXT_BYTES} are the limit")
        try:
            fault = self._checker().check(text)
        except CheckedToDeathError as error:
            raise too_complex(str(error)) from None
        except CheckerEndedError:
            raise EngineError("the engine is stopped", code="engine_stopped") from None
        except OSError as error:
            logger.exception("no process could be started to check a grammar")
            raise EngineError("grammars cannot be compiled here; the log says why", code="grammar_failed") from error
        if fault:
            raise refusal(fault)
        return self._guidance.compile(text)

    def _checker(self) -> Checker:
        checker: Checker | None = getattr(self._own, "checker", None)
        if checker is None:
            checker = self._new_checker()
            with self._lock:
                if self._closed:
                    raise CheckerEndedError
                self._checkers.append(checker)
            self._own.checker = checker
        return checker


def _is_passing(compiled: Compiled) -> bool:
    if not compiled.done() or compiled.cancelled():
        return compiled.cancelled()
    error = compiled.exception()
    return isinstance(error, EngineError) and not error.client_fault
