"""Errors an engine raises. Each says what went wrong and what to do next."""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot do what was asked.

    `code` is stable and machine-readable. The request's fault: `empty_prompt`, `invalid_token_id`, `invalid_sampling`,
    `context_length_exceeded`, `duplicate_request_id`. The engine's: `invalid_configuration`, `engine_stopped` (not
    started, or stopped), `engine_failed` (ended by a fault of its own), `non_finite_logits` (ends one request only).
    `client_fault` tells whether the request was at fault (a 4xx at the HTTP edge) or the engine (a 5xx).
    """

    def __init__(self, message: str, *, code: str, client_fault: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.client_fault = client_fault
