"""Which model a request means: served names, their aliases, and names with a suffix such as `[1m]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

# What agents append to a name to ask for a longer context; the context here is what it is.
_SUFFIX: Final = re.compile(r"\[[0-9a-z]{1,16}\]$")
# Names that were asked for are kept for a while: a client must not choose how much memory that takes.
_MAX_LENGTH: Final = 256


class ModelNames:
    """The names one server answers to."""

    def __init__(self, served: Sequence[str], aliases: Iterable[tuple[str, str]]) -> None:
        self._served = frozenset(served)
        aliases = list(aliases)
        self._exact = {alias: name for alias, name in aliases if not alias.endswith("*")}
        # The longest beginning that fits is the one that counts.
        beginnings = [(alias[:-1], name) for alias, name in aliases if alias.endswith("*")]
        self._beginnings = sorted(beginnings, key=lambda pair: -len(pair[0]))

    def find(self, name: str) -> str | None:
        """Find the served name that `name` stands for, or None."""
        if len(name) > _MAX_LENGTH:
            return None
        return self._find(name) or self._find(_SUFFIX.sub("", name))

    def _find(self, name: str) -> str | None:
        if name in self._served:
            return name
        if name in self._exact:
            return self._exact[name]
        return next((served for beginning, served in self._beginnings if name.startswith(beginning)), None)
