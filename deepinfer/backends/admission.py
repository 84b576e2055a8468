"""Checks that a request can run at all, before it is queued. The same for every backend; owns nothing."""

from __future__ import annotations

from collections.abc import Container

import numpy

from deepinfer.core import ModelDescription, Request, SamplingParams
from deepinfer.errors import EngineError


def check_request(request: Request, *, model: ModelDescription, in_flight: Container[str]) -> None:
    """Raise `EngineError` with `client_fault` set if the request cannot run on `model`. Costs O(prompt length)."""
    if request.request_id in in_flight:
        raise _fault("duplicate_request_id", f"request_id {request.request_id!r} is in flight already; choose another")
    _check_sampling(request.sampling, model.vocabulary_size)
    prompt_tokens, max_tokens = len(request.token_ids), request.sampling.max_tokens
    if prompt_tokens == 0:
        raise _fault("empty_prompt", "token_ids is empty; a prompt needs at least one token")
    if prompt_tokens + max_tokens > model.context_length:
        raise _fault(
            "context_length_exceeded",
            f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}, together "
            f"{prompt_tokens + max_tokens}; the context length is {model.context_length}",
        )
    # An array, without a copy where the ids are packed: comparing a million of them one by one would take too long.
    ids = numpy.asarray(request.token_ids)
    for token_id in (int(ids.min()), int(ids.max())):
        if not 0 <= token_id < model.vocabulary_size:
            raise _fault(
                "invalid_token_id", f"token_ids has {token_id}; the vocabulary ends at {model.vocabulary_size - 1}"
            )


def _check_sampling(sampling: SamplingParams, vocabulary_size: int) -> None:
    # Written so that NaN fails each test.
    if not sampling.max_tokens >= 1:
        raise _fault("invalid_sampling", f"max_tokens is {sampling.max_tokens}; it must be at least 1")
    if not 0.0 <= sampling.temperature < float("inf"):
        raise _fault("invalid_sampling", f"temperature is {sampling.temperature}; it must be finite and not below 0")
    if not 0.0 <= sampling.top_p <= 1.0:
        raise _fault("invalid_sampling", f"top_p is {sampling.top_p}; it must lie between 0 and 1")
    if sampling.top_logprobs is not None and not 0 <= sampling.top_logprobs <= vocabulary_size:
        raise _fault(
            "invalid_sampling",
            f"top_logprobs is {sampling.top_logprobs}; it must lie between 0 and the vocabulary size {vocabulary_size}",
        )


def _fault(code: str, message: str) -> EngineError:
    return EngineError(message, code=code, client_fault=True)
