"""Token ids over `/v1/completions`, as vLLM offers them (`return_token_ids`), and `deepinfer` itself.

`deepinfer` also takes grammars with all that belongs to them and limits of thinking, in members of its own. It is asked
in MessagePack, in which a prompt's ids are written and read as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from deepinfer.backends.remote.dialects import (
    JSON,
    LEAST_TOP_P,
    Features,
    GrammarForm,
    check_ids,
    decoded,
    finish_of,
    id_list,
)
from deepinfer.backends.remote.faults import broken
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob
from deepinfer.link.ids import ids_to_bytes

DONE: Final = b"[DONE]"
_ID_PREFIX: Final = "token_id:"


class Details(msgspec.Struct):
    """Of the prompt's tokens."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """What the answer cost so far."""

    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that were found in the upstream's cache."""
        return None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: Any = None


_CHUNKS: Final = msgspec.json.Decoder(_Chunk)


class OpenAiDialect:
    """vLLM, and whatever answers as it does; with `GrammarForm.WHOLE`, another `deepinfer`."""

    path: Final = "/v1/completions"

    def __init__(self, model: str, vocabulary_size: int, grammar: GrammarForm) -> None:
        self.features: Final = Features(grammar=grammar)
        self.name: Final = "deepinfer" if grammar is GrammarForm.WHOLE else "completions with token ids"
        self.media_type: Final = "application/msgpack" if grammar is GrammarForm.WHOLE else JSON
        self._model = model
        self._vocabulary_size = vocabulary_size

    def body(self, request: Request) -> bytes:
        """Write a request that streams."""
        body = sampling_members(request) | {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            # Left out, vLLM takes those of the model's generation_config.json.
            "top_k": request.sampling.top_k or -1,
            "min_p": request.sampling.min_p,
            "repetition_penalty": request.sampling.repetition_penalty,
        }
        if request.sampling.top_logprobs is not None:
            body["logprobs"] = request.sampling.top_logprobs
            body["return_tokens_as_token_ids"] = True
        if self.features.grammar is GrammarForm.WHOLE:
            return msgspec.msgpack.encode(body | _own_members(request))
        body["prompt"] = id_list(request.token_ids)
        if request.grammar is not None:
            body["structured_outputs"] = {"grammar": request.grammar.text}
        return msgspec.json.encode(body)

    def reader(self, request: Request) -> OpenAiReader:
        """Read its answer."""
        return OpenAiReader(self._vocabulary_size, request.sampling.top_logprobs)


def sampling_members(request: Request) -> dict[str, Any]:
    """Members that OpenAI's protocol and vLLM's have in common."""
    sampling = request.sampling
    members: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": max(sampling.top_p, LEAST_TOP_P),
        "stop_token_ids": sampling.stop_token_ids,
    }
    for name, value, neutral in (
        ("presence_penalty", sampling.presence_penalty, 0.0),
        ("frequency_penalty", sampling.frequency_penalty, 0.0),
        ("seed", sampling.seed, None),
    ):
        if value != neutral:
            members[name] = value
    if sampling.logit_bias:
        members["logit_bias"] = dict(sampling.logit_bias)
    return members


def _own_members(request: Request) -> dict[str, Any]:
    members: dict[str, Any] = {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_prompt_token_ids": False,
        "prompt_ids": ids_to_bytes(request.token_ids),
    }
    if request.grammar is not None:
        members["grammar"] = request.grammar
    if request.thinking_limit is not None:
        members["thinking_limit"] = request.thinking_limit
    return members


class OpenAiReader:
    """Reads one answer."""

    def __init__(self, vocabulary_size: int, top_logprobs: int | None) -> None:
        self.finish: FinishReason | None = None
        self.complete = False
        self._vocabulary_size = vocabulary_size
        self._top_logprobs = top_logprobs

    def read(self, events: Sequence[bytes]) -> StepOutput | None:
        """Make one output of all events. Raises `UpstreamFaultError`."""
        token_ids: list[int] = []
        logprobs: list[TokenLogprob] | None = None if self._top_logprobs is None else []
        cached_tokens = None
        for event in events:
            if event == DONE:
                self.complete = True
                break
            chunk = decoded(_CHUNKS, event)
            if chunk.usage is not None:
                cached_tokens = chunk.usage.cached_tokens
            for choice in chunk.choices:
                self._take(choice, token_ids, logprobs)
        if not token_ids and cached_tokens is None:
            return None
        check_ids(token_ids, self._vocabulary_size)
        return StepOutput(
            token_ids=tuple(token_ids),
            logprobs=None if logprobs is None else tuple(logprobs),
            cached_tokens=cached_tokens,
        )

    def _take(self, choice: _Choice, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        if choice.token_ids:
            if self.finish is not None:
                raise broken("it sent tokens after the end of the answer")
            token_ids += choice.token_ids
            if logprobs is not None:
                logprobs += self._logprobs(choice.logprobs, len(choice.token_ids))
        elif choice.token_ids is None and choice.finish_reason is None:
            raise broken("it sent no token ids, which were asked for")
        if choice.finish_reason is not None:
            self.finish = finish_of(choice.finish_reason)

    def _logprobs(self, found: _Logprobs | None, count: int) -> list[TokenLogprob]:
        if found is None or len(found.token_logprobs) != count:
            raise broken(f"it sent {count} tokens and not as many log probabilities")
        tops = found.top_logprobs or [None] * count
        if len(tops) != count:
            raise broken(f"it sent {count} tokens and not as many lists of alternatives")
        return [
            TokenLogprob(logprob=-9999.0 if logprob is None else logprob, top=self._top(top or {}))
            for logprob, top in zip(found.token_logprobs, tops, strict=True)
        ]

    def _top(self, top: dict[str, float]) -> tuple[tuple[int, float], ...]:
        try:
            entries = [(int(name.removeprefix(_ID_PREFIX)), logprob) for name, logprob in top.items()]
        except ValueError:
            raise broken("it names alternatives by text; token ids were asked for") from None
        check_ids([token_id for token_id, _ in entries], self._vocabulary_size)
        # The chosen token stands among them, whether it is one of the best or not.
        return tuple(sorted(entries, key=lambda entry: -entry[1])[: self._top_logprobs])
