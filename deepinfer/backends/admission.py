"""Checks that a request can run at all, before it is queued. The same for every backend; owns nothing."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf

import numpy

from deepinfer.core import ModelDescription, Request, SamplingParams
from deepinfer.errors import EngineError


def check_request(request: Request, *, model: ModelDescription, in_flight: Container[str]) -> None:
    """Raise `EngineError` with `client_fault` set if the request cannot run on `model`. Costs O(prompt length)."""
    if request.request_id in in_flight:
        raise _fault("duplicate_request_id", f"request_id {request.request_id!r} is in flight already; choose another")
    _check_sampling(request.sampling, model.vocabulary_size)
    _check_constraint(request, model.vocabulary_size)
    prompt_tokens, max_tokens = len(request.token_ids), request.sampling.max_tokens
    if prompt_tokens == 0:
        raise _fault("empty_prompt", "token_ids is empty; a prompt needs at least one token")
    if prompt_tokens + max_tokens > model.context_length:
        raise _fault(
            "context_length_exceeded",
            f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}, together "
            f"{prompt_tokens + max_tokens}; the context length is {model.context_length}",
        )
    if (token_id := unknown_id(request.token_ids, model.vocabulary_size)) is not None:
        _check_token_id("token_ids", token_id, model.vocabulary_size)


def unknown_id(token_ids: Sequence[int], vocabulary_size: int) -> int | None:
    """An id that is not in a vocabulary of this size, if there is one among some."""
    if isinstance(token_ids, memoryview) and token_ids.format == "I":
        # Packed, and none below 0: comparing a million of them one by one would take too long.
        extremes = [int(numpy.maximum.reduce(numpy.asarray(token_ids)))]
    else:
        extremes = [min(token_ids), max(token_ids)]
    return next((token_id for token_id in extremes if not 0 <= token_id < vocabulary_size), None)


def _check_sampling(sampling: SamplingParams, vocabulary_size: int) -> None:
    top_k, top_logprobs = sampling.top_k, sampling.top_logprobs
    # Written so that NaN fails each test.
    if not sampling.max_tokens >= 1:
        raise _unfit("max_tokens", sampling.max_tokens, "be at least 1")
    if not 0.0 <= sampling.temperature < inf:
        raise _unfit("temperature", sampling.temperature, "be finite and not below 0")
    if not 0.0 <= sampling.top_p <= 1.0:
        raise _unfit("top_p", sampling.top_p, "lie between 0 and 1")
    if not 0.0 <= sampling.min_p <= 1.0:
        raise _unfit("min_p", sampling.min_p, "lie between 0 and 1")
    if not (top_k is None or top_k >= 1):
        raise _unfit("top_k", top_k, "be at least 1")
    if not abs(sampling.presence_penalty) <= 2.0:
        raise _unfit("presence_penalty", sampling.presence_penalty, "lie between -2 and 2")
    if not abs(sampling.frequency_penalty) <= 2.0:
        raise _unfit("frequency_penalty", sampling.frequency_penalty, "lie between -2 and 2")
    if not 0.0 < sampling.repetition_penalty <= 10.0:
        raise _unfit("repetition_penalty", sampling.repetition_penalty, "be above 0 and at most 10")
    if not (top_logprobs is None or 0 <= top_logprobs <= vocabulary_size):
        raise _unfit("top_logprobs", top_logprobs, f"lie between 0 and the vocabulary size {vocabulary_size}")
    for token_id, bias in sampling.logit_bias.items():
        _check_token_id("logit_bias", token_id, vocabulary_size)
        if not abs(bias) <= 100.0:
            raise _fault("invalid_sampling", f"logit_bias of {token_id} is {bias}; it must lie between -100 and 100")


def _check_constraint(request: Request, vocabulary_size: int) -> None:
    grammar, limit = request.grammar, request.thinking_limit
    if grammar is not None:
        for name, token_id in (("start_after", grammar.start_after), ("trigger", grammar.trigger)):
            if token_id is not None:
                _check_token_id(name, token_id, vocabulary_size)
    if limit is None:
        return
    _check_token_id("end_token_id", limit.end_token_id, vocabulary_size)
    if limit.tokens < 0:
        raise _fault("invalid_thinking_limit", f"thinking_limit is {limit.tokens} tokens; it must not be below 0")
    if grammar is not None and grammar.start_after != limit.end_token_id:
        raise _fault(
            "invalid_thinking_limit",
            f"thinking ends with token {limit.end_token_id}, and the grammar starts after {grammar.start_after}",
        )


def _check_token_id(name: str, token_id: int, vocabulary_size: int) -> None:
    if not 0 <= token_id < vocabulary_size:
        raise _fault("invalid_token_id", f"{name} has {token_id}; the vocabulary ends at {vocabulary_size - 1}")


def _unfit(name: str, value: object, bounds: str) -> EngineError:
    return _fault("invalid_sampling", f"{name} is {value}; it must {bounds}")


def _fault(code: str, message: str) -> EngineError:
    return EngineError(message, code=code, client_fault=True)
