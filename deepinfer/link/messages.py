"""Payloads of frames, typed. Everything that comes from the other side is checked as it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from deepinfer.core import FinishReason, Grammar, SamplingParams, StepOutput, ThinkingLimit, TokenLogprob

# Tokens, or characters, in one frame: what has waited may be a whole answer.
_MAX_OUTPUT: Final = 1024
# Longest payload that comes from an upstream; twenty alternatives to each of a frame's tokens stay well below.
MAX_ANSWER_BYTES: Final = 1024 * 1024


class Submit(msgspec.Struct, omit_defaults=True):
    """A request. `request_id` is what the gateway calls it.

    `ids`: of its prompt, four bytes each, the lowest first.
    """

    request_id: str
    # A copy of those in the payload, which may begin anywhere: where processors like numbers, others read them fast.
    ids: bytes
    sampling: SamplingParams
    grammar: Grammar | None = None
    thinking_limit: ThinkingLimit | None = None


class Output(msgspec.Struct, array_like=True):
    """A `StepOutput`. Of log probabilities: that of the token, then ids and those of the alternatives."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None
    logprobs: list[tuple[float, tuple[tuple[int, float], ...]]] | None = None
    text: str | None = None
    text_tokens: int = 0


class Failed(msgspec.Struct, omit_defaults=True):
    """The end of a request: what a client of HTTP would have got for it."""

    status: int
    code: str
    message: str
    field: str | None = None


T = TypeVar("T")


class MessageError(Exception):
    """A payload that cannot be read."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_SUBMITS: Final = msgspec.msgpack.Decoder(Submit)
_OUTPUTS: Final = msgspec.msgpack.Decoder(Output)
_FAILURES: Final = msgspec.msgpack.Decoder(Failed)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def pack(message: Submit | Output | Failed) -> bytes:
    """Write a payload. Raises OverflowError for integers of more than 64 bits."""
    return _ENCODER.encode(message)


def read_submit(payload: bytes | memoryview) -> Submit:
    """Read a request. Raises `MessageError`."""
    return _read(_SUBMITS, payload)


def read_output(payload: bytes | memoryview) -> StepOutput:
    """Read an output. Raises `MessageError`."""
    found = _read(_OUTPUTS, payload)
    logprobs = None
    if found.logprobs is not None:
        logprobs = tuple(TokenLogprob(logprob, top) for logprob, top in found.logprobs)
    return StepOutput(
        token_ids=found.token_ids,
        logprobs=logprobs,
        finish_reason=found.finish_reason,
        cached_tokens=found.cached_tokens,
        text=found.text,
        text_tokens=found.text_tokens,
    )


def read_failure(payload: bytes | memoryview) -> Failed:
    """Read the end of a request that failed. Raises `MessageError`."""
    return _read(_FAILURES, payload)


def packed_outputs(output: StepOutput) -> Iterator[bytes]:
    """Write an output as payloads, more than one if it is long."""
    size = max(len(output.token_ids), len(output.text or ""))
    if size <= _MAX_OUTPUT:
        yield pack(_output(output))
        return
    whole = _output(output)
    count = math.ceil(size / _MAX_OUTPUT)
    for place in range(count):
        part = slice(place * _MAX_OUTPUT, (place + 1) * _MAX_OUTPUT)
        last = place == count - 1
        yield pack(
            Output(
                token_ids=whole.token_ids[part],
                finish_reason=whole.finish_reason if last else None,
                cached_tokens=whole.cached_tokens if last else None,
                logprobs=None if whole.logprobs is None else whole.logprobs[part],
                text=None if whole.text is None else whole.text[part],
                text_tokens=whole.text_tokens if last else 0,
            )
        )


def _output(output: StepOutput) -> Output:
    logprobs = None
    if output.logprobs is not None:
        logprobs = [(entry.logprob, entry.top) for entry in output.logprobs]
    return Output(
        output.token_ids, output.finish_reason, output.cached_tokens, logprobs, output.text, output.text_tokens
    )


def _read(decoder: msgspec.msgpack.Decoder[T], payload: bytes | memoryview) -> T:
    try:
        return decoder.decode(payload)
    except _FAULTS as error:
        raise MessageError(f"a payload that cannot be read: {error}") from None
