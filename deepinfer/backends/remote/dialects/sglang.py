"""Token ids over SGLang's own `/generate`.

Its events may hold the ids of all the answer so far or those of one step; which are new follows from the counts.
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
from deepinfer.backends.remote.dialects.openai import DONE
from deepinfer.backends.remote.faults import broken
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob

# Log probability, id, and text where it is asked for.
_Entry = tuple[float | None, int, str | None]


class _Finish(msgspec.Struct):
    type: str
    matched: int | str | None = None
    message: str | None = None


class _Meta(msgspec.Struct):
    completion_tokens: int
    finish_reason: _Finish | None = None
    cached_tokens: int | None = None
    output_token_logprobs: list[_Entry] | None = None
    output_top_logprobs: list[list[_Entry] | None] | None = None


class _Event(msgspec.Struct):
    output_ids: list[int] | None = None
    meta_info: _Meta | None = None
    error: Any = None


_EVENTS: Final = msgspec.json.Decoder(_Event)


class SglangDialect:
    """SGLang's `/generate`, with token ids in and out."""

    path: Final = "/generate"
    media_type: Final = JSON
    name: Final = "SGLang"

    def __init__(self, vocabulary_size: int, grammar: GrammarForm) -> None:
        self.features: Final = Features(grammar=grammar)
        self._vocabulary_size = vocabulary_size

    def body(self, request: Request) -> bytes:
        """Write a request that streams."""
        sampling = request.sampling
        parameters: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": max(sampling.top_p, LEAST_TOP_P),
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "stop_token_ids": sampling.stop_token_ids,
            "skip_special_tokens": False,
        }
        if sampling.logit_bias:
            parameters["logit_bias"] = {str(token_id): bias for token_id, bias in sampling.logit_bias.items()}
        if sampling.seed is not None:
            parameters["sampling_seed"] = sampling.seed
        if request.grammar is not None:
            parameters["ebnf"] = request.grammar.text
        body: dict[str, Any] = {
            "input_ids": id_list(request.token_ids),
            "sampling_params": parameters,
            "stream": True,
        }
        if sampling.top_logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": sampling.top_logprobs, "logprob_start_len": -1}
        return msgspec.json.encode(body)

    def reader(self, request: Request) -> SglangReader:
        """Read its answer."""
        return SglangReader(self._vocabulary_size, request.sampling.top_logprobs)


class SglangReader:
    """Reads one answer."""

    def __init__(self, vocabulary_size: int, top_logprobs: int | None) -> None:
        self.finish: FinishReason | None = None
        self.complete = False
        self._vocabulary_size = vocabulary_size
        self._top_logprobs = top_logprobs
        self._count = 0
        self._first: list[int] = []
        self._cumulative: bool | None = None

    def read(self, events: Sequence[bytes]) -> StepOutput | None:
        """Make one output of all events. Raises `UpstreamFaultError`."""
        token_ids: list[int] = []
        logprobs: list[TokenLogprob] | None = None if self._top_logprobs is None else []
        cached_tokens = None
        for event in events:
            if event == DONE:
                self.complete = True
                break
            found = decoded(_EVENTS, event)
            if found.meta_info is None:
                raise broken("it sent an event without meta_info")
            if self.finish is not None:
                raise broken("it sent tokens after the end of the answer")
            first = self._count == 0
            self._take(found.output_ids or [], found.meta_info, token_ids, logprobs)
            if first:
                cached_tokens = found.meta_info.cached_tokens
        if not token_ids and cached_tokens is None:
            return None
        check_ids(token_ids, self._vocabulary_size)
        return StepOutput(
            token_ids=tuple(token_ids),
            logprobs=None if logprobs is None else tuple(logprobs),
            cached_tokens=cached_tokens,
        )

    def _take(
        self, output_ids: list[int], meta: _Meta, token_ids: list[int], logprobs: list[TokenLogprob] | None
    ) -> None:
        new = meta.completion_tokens - self._count
        if new < 0:
            raise broken("it counts fewer tokens than before")
        end = meta.finish_reason
        tail = output_ids[-new:] if new else []
        if end is not None and isinstance(end.matched, int) and output_ids[-1:] != [end.matched]:
            # The token that ended the answer is left out, though it may be counted.
            tail = [*(output_ids[self._count :] if self._holds_all(output_ids) else output_ids), end.matched]
        if len(tail) < new:
            raise broken(f"it counts {new} new tokens and sent {len(tail)}")
        token_ids += tail
        if not self._count:
            self._first = output_ids
        elif end is None and self._cumulative is None:
            self._cumulative = len(output_ids) == meta.completion_tokens
        if logprobs is not None:
            logprobs += self._logprobs(meta, len(tail))
        self._count = meta.completion_tokens
        if end is not None:
            if end.type == "abort":
                raise broken(f"it ended the answer: {end.message or 'abort'}")
            self.finish = finish_of(end.type)

    def _holds_all(self, output_ids: list[int]) -> bool:
        """Whether an event has the ids of all the answer so far, and not of one step."""
        if self._cumulative is None:
            # One event came before, if any.
            return output_ids[: self._count] == self._first
        return self._cumulative

    def _logprobs(self, meta: _Meta, new: int) -> list[TokenLogprob]:
        if new == 0:
            return []
        entries = (meta.output_token_logprobs or [])[-new:]
        tops = (meta.output_top_logprobs or [])[-new:] or [None] * new
        if len(entries) != new or len(tops) != new:
            raise broken(f"it sent {new} tokens and not as many log probabilities")
        result = []
        for (logprob, _, _), top in zip(entries, tops, strict=True):
            best = tuple((token_id, -9999.0 if value is None else value) for value, token_id, _ in top or ())
            check_ids([token_id for token_id, _ in best], self._vocabulary_size)
            result.append(TokenLogprob(logprob=-9999.0 if logprob is None else logprob, top=best))
        return result
