"""Data that every part of the engine shares. Owns no state and imports nothing of the package.

A `Request` is what a client of an engine hands in; a `StepOutput` is what it gets back, one per engine step.
Token ids are plain integers in the vocabulary of the served model: nothing here knows text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class FinishReason(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token of one sequence is chosen.

    `temperature` 0 is greedy. `min_p` drops tokens less probable than that share of the most probable one, `top_k`
    keeps that many of the most probable, `top_p` keeps the smallest set of tokens whose probability reaches it (nucleus
    sampling, Holtzman et al. 2020); in this order, each on what the one before left.

    `repetition_penalty` divides positive logits of tokens that stand in the prompt or the answer, and multiplies
    negative ones (Keskar et al. 2019). `frequency_penalty` is taken off a token's logit for each time that the answer
    holds it, `presence_penalty` once if it does. `logit_bias` is added to the logits of single tokens.

    `top_logprobs` is None (no log probabilities) or how many alternatives each token carries. Log probabilities are
    those of the model: before penalties, bias, constraint and temperature.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What an answer must match, in llguidance's dialect of Lark; the end of the grammar is the end of the answer.

    Control tokens are written `<[id]>`, and are barred wherever the grammar does not ask for them.
    `start_after`: nothing is barred until the model has written this id, the end of its thinking; None: from the first
    token on.
    `trigger`: once started, the grammar sleeps until the model writes this id, and `text` describes what follows it;
    None: awake at once.
    `binding`: an answer without it breaks the request, so ending is barred until the grammar is awake.
    `required`: whether the request fails with the grammar; one that is not is left out if it cannot be compiled.
    `field`: where the client gave it; errors about the grammar name it.
    """

    text: str
    start_after: int | None = None
    trigger: int | None = None
    binding: bool = True
    required: bool = True
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingLimit:
    """Most tokens of thinking: when they are used up, `end_token_id` is the next token, whatever the logits.

    Only for an answer that begins inside of the thinking.
    """

    tokens: int
    end_token_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt to continue. `request_id` must be unique among the requests in flight."""

    request_id: str
    token_ids: Sequence[int]
    sampling: SamplingParams
    grammar: Grammar | None = None
    thinking_limit: ThinkingLimit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What grammars need to know of a vocabulary.

    `token_bytes[id]` is what a token stands for; `control_ids` stand for no text, whatever their bytes; `end_token_id`
    ends an answer; `encode` turns text, with no control tokens in it, into ids.
    """

    token_bytes: Sequence[bytes]
    control_ids: frozenset[int]
    end_token_id: int
    encode: Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural log probability of a sampled token, and the best alternatives as (id, logprob), best first."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """New tokens of one sequence.

    A token that ended the sequence (EOS or another stop token) is the last of `token_ids`. `cached_tokens`, the number
    of prompt tokens whose state was reused, stands in the first output of a sequence, or in a later one where it is
    not known before; the latest counts.
    An engine that gets no ids gives `text` instead, which stands for `text_tokens` tokens; `token_ids` is empty then.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None
    text: str | None = None
    text_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """What a client may know of the served model. `recipe_version` names the prompt format: "v4" or "v4.1".

    `reads_images`: whether prompts may hold images, each as the image token repeated.
    """

    name: str
    recipe_version: str
    vocabulary_size: int
    context_length: int
    reads_images: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """State of another server that an engine sends requests to; `running` counts those that are there."""

    name: str
    ready: bool
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of an engine. `cache_bytes` is the memory held by the caches of sequences in flight.

    `progress` says while it starts how much of the model is loaded, from 0 to 1; None where it cannot tell.
    `peers`: the servers behind an engine that has some.
    """

    ready: bool
    running: int
    waiting: int
    cache_bytes: int
    detail: str = ""
    progress: float | None = None
    peers: tuple[Peer, ...] = ()


class OutputStream(Protocol):
    """An `AsyncIterator` of one request's outputs that can be closed, as with `contextlib.aclosing`.

    The last output carries a finish reason.
    """

    def __aiter__(self) -> AsyncIterator[StepOutput]:
        """Return itself."""

    async def __anext__(self) -> StepOutput:
        """Wait for the next output. Raises `EngineError` when the engine fails, `StopAsyncIteration` after the last."""

    async def aclose(self) -> None:
        """Abort the request if it has not ended. Closing twice is harmless."""


class Engine(Protocol):
    """Ids in, ids out: the one interface between the server and whatever produces tokens."""

    async def start(self) -> None:
        """Load what is needed and become ready. Raises `EngineError` with what to do about it."""

    async def stop(self) -> None:
        """End every sequence with `FinishReason.ABORT` and free everything."""

    def submit(self, request: Request) -> OutputStream:
        """Queue a request at once and stream its outputs. Closing the stream early, or dropping it, aborts the request.

        Raises `EngineError` for a request that cannot run; the stream raises it when the engine fails on the way.
        """

    def abort(self, request_id: str) -> None:
        """End a request now and free its memory; its stream ends with `FinishReason.ABORT`. Unknown ids are ignored."""

    def describe(self) -> ModelDescription:
        """Describe the served model."""

    def health(self) -> Health:
        """Report the state; cheap enough to be polled."""
