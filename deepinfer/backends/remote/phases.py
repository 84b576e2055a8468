"""One answer in several requests, for upstreams whose grammars hold from the first token on.

Such an upstream is asked to stop where something changes: where thinking ends or its limit is used up, or where the
model writes the token that wakes a grammar. It is then asked to go on from there, under the grammar. Its cache of
prefixes makes that cheap. Owns what the answer has so far; knows nothing of HTTP.
"""

from __future__ import annotations

from dataclasses import replace

from deepinfer.backends.remote.dialects import GrammarForm, id_list
from deepinfer.core import FinishReason, Grammar, Request, StepOutput, ThinkingLimit


class Phases:
    """The requests that make up the answer to one; at most five.

    Each `next_request` is followed by `take` for its outputs and by `end`, until `finish` is known. Then and at the
    `opening` tokens may come that no upstream wrote: the end of thinking, or the token that wakes the grammar.
    """

    def __init__(self, request: Request, form: GrammarForm) -> None:
        """`form` is what the upstream can do; a grammar is left out where that is nothing."""
        self.finish: FinishReason | None = None
        self._request = request
        self._grammar = None if form is GrammarForm.NONE else request.grammar
        self._limit = request.thinking_limit
        self._thinking_end = _thinking_end(self._grammar, self._limit)
        self._thinking = self._thinking_end is not None
        self._awake = self._grammar is not None and self._grammar.trigger is None and not self._thinking
        # One request does it: it may be sent as it is, or there is nothing in it that changes on the way.
        self._whole = form is GrammarForm.WHOLE
        self._single = self._whole or (not self._thinking and (self._grammar is None or self._awake))
        self._answer: list[int] = []
        self._switches: tuple[int, ...] = ()
        self._quoted = False
        self._ended_early = False

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete."""
        return self.finish is not None

    def opening(self) -> tuple[int, ...]:
        """Tokens before the first request: the end of thinking, if there is to be none."""
        return self._end_thinking() if not self._single and self._limit_is_reached else ()

    def next_request(self) -> Request:
        """What to ask an upstream now."""
        if self._whole:
            return self._request
        sampling = self._request.sampling
        grammar = None
        if self._awake and self._grammar is not None:
            grammar = replace(self._grammar, start_after=None, trigger=None)
        if self._single:
            return replace(self._request, grammar=grammar)
        self._switches = self._next_switches()
        max_tokens = sampling.max_tokens - len(self._answer)
        if self._thinking and self._limit is not None:
            max_tokens = min(max_tokens, self._limit.tokens - len(self._answer))
        return replace(
            self._request,
            token_ids=[*id_list(self._request.token_ids), *self._answer],
            sampling=replace(
                sampling, max_tokens=max_tokens, stop_token_ids=(*sampling.stop_token_ids, *self._switches)
            ),
            grammar=grammar,
            thinking_limit=None,
        )

    def take(self, output: StepOutput) -> StepOutput:
        """Take note of an output; returns what of it belongs to the answer."""
        if self._single:
            return output
        ids = output.token_ids
        binding = self._grammar is not None and self._grammar.binding
        if binding and not self._awake and ids and ids[-1] in self._request.sampling.stop_token_ids:
            self._ended_early = True
            logprobs = output.logprobs
            output = replace(output, token_ids=ids[:-1], logprobs=None if logprobs is None else logprobs[:-1])
        self._note(output.token_ids)
        return output

    def end(self, reason: FinishReason) -> tuple[int, ...]:
        """Take note of why an upstream ended; returns tokens that come next."""
        if self._single:
            self.finish = reason
        elif self._ended_early and len(self._answer) < self._request.sampling.max_tokens:
            # The answer must match a grammar that has not begun: what comes before it ends here instead.
            self._ended_early = False
            if not self._awake:
                return self._end_thinking() if self._thinking else self._wake()
        elif reason is FinishReason.LENGTH and self._limit_is_reached and not self._is_full:
            return self._end_thinking()
        elif reason is FinishReason.LENGTH or self._is_full:
            self.finish = FinishReason.LENGTH
        elif not self._answer or self._answer[-1] not in self._switches:
            self.finish = reason
        return ()

    @property
    def _limit_is_reached(self) -> bool:
        return self._thinking and self._limit is not None and len(self._answer) >= self._limit.tokens

    @property
    def _is_full(self) -> bool:
        return len(self._answer) >= self._request.sampling.max_tokens

    def _next_switches(self) -> tuple[int, ...]:
        """Tokens after which something else is to be asked."""
        trigger = None if self._grammar is None or self._awake else self._grammar.trigger
        if self._thinking and (self._limit is not None or trigger is None or self._quoted):
            assert self._thinking_end is not None
            return (self._thinking_end,)
        # The end of thinking itself changes nothing then: one request less.
        return () if trigger is None else (trigger,)

    def _note(self, ids: tuple[int, ...]) -> None:
        self._answer += ids
        grammar = self._grammar
        if self._thinking and self._thinking_end in ids:
            self._thinking = False
            self._awake = grammar is not None and grammar.trigger is None
        if grammar is not None and grammar.trigger is not None and not self._awake and grammar.trigger in ids[-1:]:
            self._awake = not self._thinking
            self._quoted = self._quoted or self._thinking

    def _end_thinking(self) -> tuple[int, ...]:
        return self._write(self._thinking_end)

    def _wake(self) -> tuple[int, ...]:
        return self._write(None if self._grammar is None else self._grammar.trigger)

    def _write(self, token_id: int | None) -> tuple[int, ...]:
        assert token_id is not None
        self._note((token_id,))
        if self._is_full:
            self.finish = FinishReason.LENGTH
        return (token_id,)


def _thinking_end(grammar: Grammar | None, limit: ThinkingLimit | None) -> int | None:
    if grammar is not None:
        return grammar.start_after
    return None if limit is None else limit.end_token_id
