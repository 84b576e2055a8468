"""The record of one HTTP request, for its log line and the metrics. Holds no text of prompt or answer.

Owned by the edge, which creates and reports it; the handler of the request fills in what it learns.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from starlette.types import Scope

_SANE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_SCOPE_KEY: Final = "deepinfer.exchange"
_MAX_WARNINGS: Final = 1000


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What is known so far of one request. Times are of the monotonic clock; `path` is what the client wrote."""

    request_id: str
    method: str
    path: str
    client: str = ""
    started: float = field(default_factory=time.monotonic)
    route: str = "unmatched"
    status: int | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int = 0
    first_token: float | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    warnings: Sequence[str] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def show_position(self, waiting: int) -> None:
        """Tell the client how many sequences waited before its own."""
        self.headers["x-deepinfer-queue-position"] = str(waiting)

    def show_warnings(self, warnings: Sequence[str]) -> None:
        """Tell client and log what was left out, or went wrong: a JSON array, cut where a header gets too long."""
        self.warnings = warnings
        if warnings:
            self.headers["x-deepinfer-warnings"] = _bounded_array(warnings)

    def add_warning(self, warning: str) -> None:
        """Tell client and log one thing more."""
        self.show_warnings([*self.warnings, warning])

    def count_tokens(self, number: int) -> None:
        """Add generated tokens; the first ones set the time to first token."""
        if number and self.first_token is None:
            self.first_token = time.monotonic() - self.started
        self.completion_tokens += number


def _bounded_array(texts: Sequence[str]) -> str:
    kept = list(texts)
    while len(shown := json.dumps(kept)) > _MAX_WARNINGS:
        if len(kept) == 1:
            return json.dumps([kept[0][: _MAX_WARNINGS // 12] + "..."])
        kept = [*kept[: (len(kept) - 1) // 2], f"... and {len(texts) - (len(kept) - 1) // 2} more"]
    return shown


def attach_exchange(scope: Scope, exchange: Exchange) -> None:
    """Let the handlers of this request find its record."""
    scope[_SCOPE_KEY] = exchange


def exchange_of(scope: Scope) -> Exchange:
    """Find the record of this request."""
    exchange = scope[_SCOPE_KEY]
    assert isinstance(exchange, Exchange)
    return exchange


def choose_request_id(offered: str | None) -> str:
    """Take the client's own request id if it is short and plain, else make one."""
    if offered is not None and _SANE_REQUEST_ID.fullmatch(offered):
        return offered
    return f"req_{uuid4().hex}"
