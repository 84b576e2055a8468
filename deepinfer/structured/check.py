"""The near end of the process that checks grammars: starts it when needed, and ends it when it takes too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Final

from deepinfer.structured.checker import read_message, vocabulary_message, write_message
from deepinfer.structured.limits import CHECK_PROCESSOR_SECONDS

_MODULE: Final = "deepinfer.structured.checker"
# Exit status of a process that the system ended for its processor time.
_TOO_LONG: Final = -signal.SIGXCPU if sys.platform != "win32" else None


class CheckedToDeathError(Exception):
    """A grammar took more time, memory or stack than it may; the message says which."""


class CheckerEndedError(Exception):
    """Nothing is checked any more."""


class Checker:
    """Owns one process. For one thread at a time, but for `end`."""

    def __init__(self, size: int, control_ids: list[int], end_token_id: int, *, seconds: float) -> None:
        self._vocabulary = vocabulary_message(size, control_ids, end_token_id)
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._ended = False

    def check(self, text: str) -> str:
        """Return what is wrong with a grammar, or an empty string.

        Raises `CheckedToDeathError`, and `CheckerEndedError` after `end`.
        """
        process = self._running()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, end)
        timer.daemon = True
        timer.start()
        try:
            answer = _ask(process, text)
        finally:
            timer.cancel()
            timer.join()
        if answer is None or late.is_set():
            self.close()
        if answer is not None:
            return answer.decode(errors="replace")
        if self._ended:
            raise CheckerEndedError
        if late.is_set():
            raise CheckedToDeathError(f"it takes longer than {self._seconds:g} s to compile")
        if process.returncode == _TOO_LONG:
            raise CheckedToDeathError(f"it takes more than {CHECK_PROCESSOR_SECONDS} s of processor time to compile")
        raise CheckedToDeathError("it nests too deeply, or takes too much memory to compile")

    def end(self) -> None:
        """End the process, a check that runs with it, and all checks to come. For any thread."""
        with self._starting:
            self._ended = True
        self.close()

    def close(self) -> None:
        """End the process; the next check starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                # What was not written when the process died.
                pass

    def _running(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is None:
            return process
        # It may have died while it had nothing to do, which says nothing of the next grammar.
        self.close()
        with self._starting:
            if self._ended:
                raise CheckerEndedError
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                # An interrupt at the terminal is for the server alone, which ends this process in its own time.
                start_new_session=True,
            )
        assert process.stdin is not None
        try:
            write_message(process.stdin, self._vocabulary)
        except (OSError, ValueError):
            # Where it was ended meanwhile, its pipes are closed.
            if self._ended:
                raise CheckerEndedError from None
            raise
        return process


def _ask(process: subprocess.Popen[bytes], text: str) -> bytes | None:
    assert process.stdin is not None and process.stdout is not None
    try:
        write_message(process.stdin, text.encode())
        return read_message(process.stdout)
    except (OSError, ValueError):
        # It died, or was ended and its pipes closed.
        return None
