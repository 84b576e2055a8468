"""What can go wrong with an upstream, before it becomes an `EngineError` that names the upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from deepinfer.errors import EngineError

# Codes by which our own server and others name a request's fault; they are passed on as they are.
_KNOWN_CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "invalid_grammar",
        "grammar_too_complex",
        "grammar_dead_end",
        "invalid_token_id",
        "out_of_range",
    }
)
_MAX_MESSAGE: Final = 1000


class UpstreamFaultError(Exception):
    """An upstream failed at a request, or refused it. `retry`: another may do better, or the same at another time.

    `lost`: the connection could not be opened, or broke.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retry: bool,
        lost: bool = False,
        client_fault: bool = False,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry = retry
        self.lost = lost
        self.client_fault = client_fault
        self.field = field

    def of(self, upstream: str) -> EngineError:
        """The error for the engine's client."""
        return EngineError(
            f"upstream {upstream}: {self}", code=self.code, client_fault=self.client_fault, field=self.field
        )


def broken(message: str, *, retry: bool = True) -> UpstreamFaultError:
    """The upstream does not do what it should."""
    return UpstreamFaultError(message, code="upstream_failed", retry=retry)


def refusal(status: int, body: bytes) -> UpstreamFaultError:
    """What a response other than 200 means."""
    return refusal_of(status, *_error_of(body))


def refusal_of(status: int, code: str, message: str, field: str | None) -> UpstreamFaultError:
    """What a status other than 200 means, and what is said of it."""
    said = f"HTTP {status}" + (f": {message}" if message else "")
    if status in (429, 503, 529):
        return UpstreamFaultError(said, code="engine_overloaded", retry=True)
    if status in (401, 403):
        return broken(f"it refuses the gateway's key ({said}); check the setting upstream_api_key")
    if status in (404, 405):
        return broken(f"it has no such model or path ({said}); check upstream and upstream_model")
    if 300 <= status < 400:
        return broken(f"it redirects (HTTP {status}), which is not followed; give the address where it leads")
    if 400 <= status < 500:
        known = code if code in _KNOWN_CODES else "upstream_refused"
        return UpstreamFaultError(said, code=known, retry=False, client_fault=True, field=field)
    return broken(said)


def error_event(data: bytes) -> UpstreamFaultError:
    """What an error in a stream means."""
    code, message, field = _error_of(data)
    if code in ("400", "BadRequestError"):
        return UpstreamFaultError(message, code="upstream_refused", retry=False, client_fault=True, field=field)
    if code in ("503", "429", "engine_overloaded", "server_shutting_down"):
        return UpstreamFaultError(message, code="engine_overloaded", retry=True)
    return broken(message or "it ended the answer with an error")


def _error_of(body: bytes) -> tuple[str, str, str | None]:
    """Code, message and field of an error in OpenAI's form or a similar one; empty where there is none."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", body[:200].decode("utf-8", "replace").strip(), None
    error = found.get("error", found) if isinstance(found, Mapping) else found
    if not isinstance(error, Mapping):
        return "", str(error)[:_MAX_MESSAGE], None
    message = error.get("message", error.get("detail", ""))
    field = error.get("param")
    return str(error.get("code", "")), str(message)[:_MAX_MESSAGE], field if isinstance(field, str) else None
