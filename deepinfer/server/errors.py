"""Every failure's way to the wire: status, headers and the protocol's own JSON. Raises nothing and logs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException

import deepseek_recipe as recipe
from deepinfer.errors import EngineError
from deepinfer.server.protocols import ProtocolName

_UNAVAILABLE: Final = frozenset({"engine_stopped", "engine_overloaded", "server_shutting_down", "upstream_unreachable"})
_GATEWAY: Final = {"upstream_failed": 502, "upstream_timeout": 504}
# Where its clients look for an overloaded server.
_OVERLOADED: Final = {"messages": 529}


class HttpError(Exception):
    """A failure found by the server itself. `code` is stable; `message` says what is wrong and what to do.

    Carries the attributes that the codec's own errors carry, so that a decoder can end its stream with it.
    """

    def __init__(
        self,
        status_code: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


class ClientGoneError(Exception):
    """The client went away, or stopped reading for too long; there is nobody to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error as it goes onto the wire."""

    status: int
    code: str
    body: bytes
    headers: Mapping[str, str]


def answer_for(error: Exception, protocol: ProtocolName, *, method: str, path: str) -> ErrorAnswer:
    """Render any exception in `protocol`'s envelope; an unforeseen one becomes a 500 that tells no detail."""
    if isinstance(error, recipe.RequestError):
        return ErrorAnswer(status=error.status_code, code=error.code, body=error.body, headers={})
    return _render(_as_http_error(error, method=method, path=path), protocol)


def in_mid_answer(error: Exception) -> recipe.RequestError | HttpError:
    """Put a failure that comes after the first bytes into words a client may see."""
    if isinstance(error, (recipe.RequestError, HttpError)):
        return error
    if isinstance(error, EngineError):
        return HttpError(_engine_status(error), error.code, str(error), param=error.field)
    return HttpError(500, "internal_error", "the server failed while it generated the answer")


def _render(error: HttpError, protocol: ProtocolName) -> ErrorAnswer:
    status = error.status_code
    if error.code == "engine_overloaded":
        status = _OVERLOADED.get(protocol, status)
    body = recipe.error_body(protocol, status=status, code=error.code, message=str(error), param=error.param)
    return ErrorAnswer(status=status, code=error.code, body=body, headers=error.headers)


def _as_http_error(error: Exception, *, method: str, path: str) -> HttpError:
    match error:
        case HttpError():
            return error
        case EngineError():
            headers = {"retry-after": "1"} if error.code in _UNAVAILABLE else {}
            return HttpError(_engine_status(error), error.code, str(error), param=error.field, headers=headers)
        case HTTPException(status_code=404):
            return HttpError(
                404, "not_found", f"there is no {path[:200]} here; see GET /v1/models and POST /v1/chat/completions"
            )
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("Allow", "")
            message = f"{path[:200]} does not answer {method}; use {allowed}"
            return HttpError(405, "method_not_allowed", message, headers={"allow": allowed})
        case HTTPException():
            return HttpError(error.status_code, "invalid_request", error.detail)
        case _:
            return HttpError(500, "internal_error", "the server failed on this request; its log says why")


def _engine_status(error: EngineError) -> int:
    if error.client_fault:
        return 400
    return 503 if error.code in _UNAVAILABLE else _GATEWAY.get(error.code, 500)
