"""Errors an engine raises. Each says what went wrong and what to do next."""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot do what was asked.

    `code` is stable and machine-readable. The request's fault: `empty_prompt`, `invalid_token_id`, `invalid_sampling`,
    `invalid_thinking_limit`, `invalid_grammar`, `grammar_too_complex`, `grammar_dead_end`, `grammar_not_supported`,
    `context_length_exceeded`, `duplicate_request_id`. The engine's: `invalid_configuration`, `engine_stopped` (not
    started, or stopped), `engine_failed` (ended by a fault of its own), `engine_overloaded`, `non_finite_logits`,
    `grammar_failed` and `grammar_violated` (faults that end one request only). The gateway's: `upstream_unreachable`
    (no upstream takes requests), `upstream_failed`, `upstream_timeout`; the request's fault: `upstream_refused`,
    `sampling_not_supported`.
    `client_fault` tells whether the request was at fault (a 4xx at the HTTP edge) or the engine (a 5xx).
    `field` names what of the client's request is at fault, where the engine was told.
    """

    def __init__(self, message: str, *, code: str, client_fault: bool = False, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.client_fault = client_fault
        self.field = field

    def about(self, field: str | None) -> EngineError:
        """Return the same error, not raised yet, about a field of the client's request."""
        message = str(self) if field is None else f"{field}: {self}"
        return EngineError(message, code=self.code, client_fault=self.client_fault, field=field)
