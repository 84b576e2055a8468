"""Between codec and engine: an encoded request becomes engine requests, engine outputs become protocol bytes.

The only file that speaks both languages. Knows nothing of HTTP.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final, Literal

import deepseek_recipe as recipe
from deepinfer.core import (
    FinishReason,
    Grammar,
    Request,
    SamplingParams,
    StepOutput,
    ThinkingLimit,
    TokenLogprob,
)
from deepinfer.errors import EngineError
from deepinfer.server.decoding import AnswerDecoder
from deepinfer.server.exchange import Exchange
from deepinfer.server.generation import ChoiceOutput, Generation

_MAX_SEED: Final = 2**63
_THINKING_END: Final = "</think>"
_MARK_ENDS: Final = re.compile("(?<=>)")
_FORMAT_FIELDS: Final = {
    "chat_completions": "response_format",
    "responses": "text.format",
    "messages": "output_config.format",
}


def engine_requests(
    encoded: recipe.Encoded, token_ids: Sequence[int], *, answer_id: str, context_length: int
) -> list[Request]:
    """Make one engine request per choice, of the prompt `token_ids`.

    Raises `RequestError` if the answer cannot fit into the context, or cannot be held to what the request asks for.
    """
    sampling = encoded.sampling
    max_tokens = encoded.resolve_max_tokens(context_length, prompt_tokens=len(token_ids))
    grammar = _grammar(encoded)
    thinking_limit = _thinking_limit(encoded, grammar, max_tokens)
    return [
        Request(
            request_id=f"{answer_id}/{choice}",
            token_ids=token_ids,
            sampling=SamplingParams(
                max_tokens=max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                presence_penalty=sampling.presence_penalty,
                frequency_penalty=sampling.frequency_penalty,
                logit_bias=sampling.logit_bias,
                seed=choice_seed(sampling.seed, choice),
                stop_token_ids=(recipe.eos_token_id(encoded.model_version),),
                top_logprobs=(sampling.top_logprobs or 0) if sampling.logprobs else None,
            ),
            grammar=grammar,
            thinking_limit=thinking_limit,
        )
        for choice in range(encoded.choices)
    ]


def _grammar(encoded: recipe.Encoded) -> Grammar | None:
    grammar, constraint = encoded.grammar, encoded.constraint
    if grammar is None or constraint is None:
        return None
    return Grammar(
        text=grammar.text,
        start_after=grammar.start_after,
        trigger=grammar.trigger,
        binding=grammar.binding,
        # Tools that are neither strict nor written in a grammar of their own are never refused.
        required=grammar.binding or bool(encoded.custom_tools) or '"strict":true' in (constraint.text or ""),
        field=_grammar_field(encoded, constraint),
    )


def _grammar_field(encoded: recipe.Encoded, constraint: recipe.Constraint) -> str:
    """Where the client gave what the grammar comes from."""
    if constraint.kind in ("tool_call", "tool_call_required"):
        return "tools"
    if constraint.kind in ("grammar", "choice"):
        return "structured_outputs"
    return _FORMAT_FIELDS[encoded.protocol or "chat_completions"]


def _thinking_limit(encoded: recipe.Encoded, grammar: Grammar | None, max_tokens: int) -> ThinkingLimit | None:
    """The request's own limit; else half of the answer's tokens, if something must come after the thinking."""
    if not encoded.parsing.initial_stage.startswith("reasoning"):
        return None
    tokens = encoded.thinking_budget
    if tokens is None and grammar is not None and grammar.binding:
        tokens = max_tokens // 2
    if tokens is None:
        return None
    end_token_id = None if grammar is None else grammar.start_after
    if end_token_id is None:
        end_token_id = recipe.Tokenizer.built_in(encoded.model_version).special_id(_THINKING_END)
    return None if end_token_id is None else ThinkingLimit(tokens=tokens, end_token_id=end_token_id)


def choice_seed(seed: int | None, choice: int) -> int | None:
    """The seed of one of several answers to a request."""
    # With one seed for all, n choices would be n times the same answer.
    return None if seed is None else (seed + choice) % _MAX_SEED


class Transcript:
    """Feeds a decoder with a generation's outputs and keeps the exchange's counts.

    With `single_call` a choice ends with its first call.
    """

    def __init__(
        self,
        decoder: AnswerDecoder,
        generation: Generation,
        exchange: Exchange,
        *,
        choices: int,
        fingerprint: str,
        single_call: bool = False,
    ) -> None:
        self._decoder = decoder
        self._generation = generation
        self._exchange = exchange
        self._open = set(range(choices))
        self._fingerprint = fingerprint
        self._single_call = single_call
        self._started = False
        self._cost_choice: int | None = None

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        return not self._open

    def accept(self, outputs: Sequence[ChoiceOutput]) -> bytes:
        """Turn outputs into bytes for the wire. Raises `EngineError` if the engine gave up on one of them."""
        return b"".join([self._accept(choice, output) for choice, output in outputs])

    def _accept(self, choice: int, output: StepOutput) -> bytes:
        if choice not in self._open:
            return b""
        if output.finish_reason is FinishReason.ABORT:
            raise EngineError("the server is shutting down; send the request again", code="server_shutting_down")
        self._exchange.count_tokens(len(output.token_ids) + output.text_tokens)
        head = self._start(choice, output)
        body, called = self._push(choice, output)
        if called or self._decoder.is_finished(choice):
            self._generation.abort_choice(choice)
            return head + body + self._finish(choice, "stop")
        if output.finish_reason is not None:
            return head + body + self._finish(choice, _wire_reason(output.finish_reason))
        return head + body

    def _push(self, choice: int, output: StepOutput) -> tuple[bytes, bool]:
        """Feed one output; also whether it completed the one call that the answer may have."""
        if output.text is not None:
            return self._push_text(choice, output.text, output.text_tokens)
        logprobs = _wire_logprobs(output.logprobs)
        if not self._single_call:
            return self._decoder.push(output.token_ids, logprobs=logprobs, choice=choice), False
        # One token at a time, so that nothing of a second call is read.
        sent = []
        for place, token_id in enumerate(output.token_ids):
            entry = None if logprobs is None else logprobs[place : place + 1]
            sent.append(self._decoder.push([token_id], logprobs=entry, choice=choice))
            if self._has_called():
                return b"".join(sent), True
        return b"".join(sent), False

    def _push_text(self, choice: int, text: str, token_count: int) -> tuple[bytes, bool]:
        if not self._single_call:
            return self._decoder.push_text(text, token_count, choice), False
        # Marks end so: as with tokens, nothing of a second call is read.
        sent = []
        for part in _MARK_ENDS.split(text):
            sent.append(self._decoder.push_text(part, token_count, choice))
            token_count = 0
            if self._has_called():
                return b"".join(sent), True
        return b"".join(sent), False

    def _has_called(self) -> bool:
        return any(isinstance(event, recipe.Event.CallEnd) for event in self._decoder.events())

    def _start(self, choice: int, output: StepOutput) -> bytes:
        if output.cached_tokens is not None and self._cost_choice in (None, choice):
            # All choices have one prompt, so one of them tells what it cost.
            self._cost_choice = choice
            self._exchange.cached_tokens = output.cached_tokens
            self._decoder.set_cached_tokens(output.cached_tokens)
        if self._started:
            return b""
        self._started = True
        return self._decoder.start(
            prompt_tokens=self._exchange.prompt_tokens or 0,
            cached_tokens=output.cached_tokens or 0,
            fingerprint=self._fingerprint,
        )

    def _finish(self, choice: int, reason: Literal["stop", "length"]) -> bytes:
        self._open.discard(choice)
        self._exchange.finish_reason = reason
        self._decoder.set_time(int(time.time()))
        return self._decoder.finish(reason, choice=choice)


def _wire_reason(reason: FinishReason) -> Literal["stop", "length"]:
    return "length" if reason is FinishReason.LENGTH else "stop"


def _wire_logprobs(
    logprobs: Sequence[TokenLogprob] | None,
) -> list[tuple[float, list[tuple[int, float]]]] | None:
    if logprobs is None:
        return None
    return [(entry.logprob, list(entry.top)) for entry in logprobs]
