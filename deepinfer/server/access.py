"""Who may ask: API keys, compared in constant time, and who a request is from. Knows nothing of what is asked.

The keyring owns the keys; those of a file are read again when the file changes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from deepinfer.server.errors import HttpError

# Name of every client where no keys are asked for.
ANYONE: Final = "anyone"
# How often the file is looked at, at most.
_LOOK_SECONDS: Final = 1.0

logger: Final = logging.getLogger(__name__)


class KeyFileError(Exception):
    """A file of keys that cannot be used. The message names the file."""


class Keyring:
    """The keys of one server."""

    def __init__(
        self, keys: Sequence[str], file: Path | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the file, if there is one. Raises `KeyFileError`."""
        self._given = [key.encode("utf-8", "surrogateescape") for key in keys]
        self._file = file
        self._clock = clock
        self._looked = clock()
        self._mark = None if file is None else _mark_of(file)
        self._keys = [*self._given, *([] if file is None else read_key_file(file))]

    def identify(self, headers: Headers) -> str:
        """Name the client by its key. Raises a 401 unless the request carries a known one; with no keys, all may ask.

        The name is made from the key and tells nothing of it.
        """
        self._look()
        if not self._keys:
            return ANYONE
        offered = _offered_key(headers)
        if offered is None:
            raise _refused("no API key was given; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        # Header values arrive decoded as Latin-1: encoded so again, they are the bytes that were sent.
        data = offered.encode("latin-1")
        # All keys are compared, always, so that the time taken tells nothing about which one came close.
        matches = [hmac.compare_digest(data, key) for key in self._keys]
        if not any(matches):
            raise _refused("the API key is not valid for this server")
        return f"key_{hashlib.sha256(data).hexdigest()[:16]}"

    def _look(self) -> None:
        """Read the file again if it changed. A file that cannot be used changes nothing: nobody gets in by it."""
        now = self._clock()
        if self._file is None or now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        mark = _mark_of(self._file)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._keys = [*self._given, *read_key_file(self._file)]
        except KeyFileError as error:
            logger.error("%s; the keys read before stay valid", error)
        else:
            logger.info("read %d keys from %s", len(self._keys) - len(self._given), self._file)


def read_key_file(path: Path) -> list[bytes]:
    """Read one key a line; empty lines and those that begin with # do not count. Raises `KeyFileError`."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}; pass a file that can be read") from None
    keys = [line.strip() for line in lines if line.strip() and not line.strip().startswith(b"#")]
    if not keys:
        raise KeyFileError(f"{path}: there is no key; write one a line")
    return keys


def _mark_of(path: Path) -> tuple[int, int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def _offered_key(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-api-key")


def _refused(message: str) -> HttpError:
    return HttpError(401, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})
