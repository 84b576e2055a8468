"""Text completions on the wire: chunks of a stream, and the whole body as their fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

import deepseek_recipe as recipe
from deepinfer.server.completions.text import AnswerText, Growth, TokenText
from deepinfer.server.decoding import Logprobs

_KEEP_ALIVE: Final = b": keep-alive\n\n"
_DONE: Final = b"data: [DONE]\n\n"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionForm:
    """How an answer is written. `echoed` has the text that each choice begins with, `prompts` the ids it answers.

    `usage_in_all`: every chunk has the usage so far. `ids_for_texts`: log probabilities are those of all tokens,
    control tokens too, and name them `token_id:ID`.
    """

    id: str
    model: str
    created: int
    prompts: Sequence[Sequence[int]]
    echoed: Sequence[str]
    stops: Sequence[str]
    stream: bool
    include_usage: bool
    usage_in_all: bool
    with_logprobs: bool
    with_ids: bool
    with_prompt_ids: bool
    ids_for_texts: bool


@dataclass(slots=True)
class _Choice:
    text: AnswerText
    begun: bool = False
    finish_reason: str | None = None
    # The fold, which only a body that is not streamed needs.
    parts: list[str] = field(default_factory=list)
    tokens: list[TokenText] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)


class CompletionDecoder:
    """`AnswerDecoder` of text completions."""

    def __init__(self, form: CompletionForm, tokenizer: recipe.Tokenizer) -> None:
        self._form = form
        self._tokenizer = tokenizer
        self._choices = [_Choice(AnswerText(tokenizer, form.stops, offset=len(text))) for text in form.echoed]
        self._fingerprint: str | None = None
        self._prompt_tokens = self._cached_tokens = self._completion_tokens = 0

    def start(self, *, prompt_tokens: int = 0, cached_tokens: int = 0, fingerprint: str | None = None) -> bytes:
        """Begin the answer; nothing is sent for it."""
        self._prompt_tokens, self._cached_tokens, self._fingerprint = prompt_tokens, cached_tokens, fingerprint
        return b""

    def set_cached_tokens(self, cached_tokens: int) -> None:
        """Set how many tokens of the prompt were found in a cache."""
        self._cached_tokens = cached_tokens

    def set_time(self, seconds: int) -> None:
        """Nothing here reports the time of the end."""

    def push(self, token_ids: Sequence[int], logprobs: Logprobs | None = None, choice: int = 0) -> bytes:
        """Take tokens of a choice."""
        self._completion_tokens += len(token_ids)
        state = self._choices[choice]
        growth = state.text.push(token_ids, logprobs)
        if self._form.ids_for_texts:
            growth.tokens = _all_tokens(token_ids, logprobs)
        if state.text.stopped:
            state.finish_reason = "stop"
        return self._show(choice, growth, token_ids)

    def push_text(self, text: str, token_count: int | None = None, choice: int = 0) -> bytes:
        """Take text of a choice, from an engine that has no tokens."""
        self._completion_tokens += token_count or 0
        state = self._choices[choice]
        growth = state.text.push_text(text)
        if state.text.stopped:
            state.finish_reason = "stop"
        return self._show(choice, growth, ())

    def finish(self, reason: str | None, choice: int = 0) -> bytes:
        """End a choice; with the last of them, the answer."""
        state = self._choices[choice]
        growth = state.text.finish()
        if self._form.ids_for_texts:
            growth.tokens = []
        state.finish_reason = state.finish_reason or reason or "stop"
        shown = self._show(choice, growth, (), closing=True)
        return shown + self._end() if all(state.finish_reason for state in self._choices) else shown

    def fail(self, error: str | Exception) -> bytes:
        """End the answer with an error."""
        status, code = getattr(error, "status_code", 500), getattr(error, "code", "internal_error")
        body = recipe.error_body("chat_completions", status=status, code=code, message=str(error))
        return b"data: " + body + b"\n\n"

    def keep_alive(self) -> bytes:
        """A comment."""
        return _KEEP_ALIVE

    def response(self) -> bytes:
        """The whole body."""
        choices = [self._whole(index) for index in range(len(self._choices))]
        return msgspec.json.encode(self._frame(choices) | {"usage": self._usage()})

    def events(self) -> list[recipe.Event]:
        """None: there are no calls in a text."""
        return []

    def is_finished(self, choice: int = 0) -> bool:
        """Whether a choice has come to a stop text."""
        return self._choices[choice].text.stopped

    def _show(self, index: int, growth: Growth, ids: Sequence[int], *, closing: bool = False) -> bytes:
        form, state = self._form, self._choices[index]
        if not form.stream:
            state.parts.append(growth.text)
            state.tokens += growth.tokens if form.with_logprobs else ()
            state.ids += ids if form.with_ids else ()
            return b""
        if not (growth.text or growth.tokens or closing or (ids and form.with_ids)):
            return b""
        echoed = "" if state.begun else form.echoed[index]
        choice = self._choice(index, echoed + growth.text, growth.tokens, ids, closing=closing)
        if form.with_prompt_ids and not state.begun:
            choice["prompt_token_ids"] = list(form.prompts[index])
        state.begun = True
        chunk = self._frame([choice])
        if form.usage_in_all:
            chunk["usage"] = self._usage()
        elif form.include_usage:
            chunk["usage"] = None
        elif closing and all(state.finish_reason for state in self._choices):
            chunk["usage"] = self._usage()
        return _event(chunk)

    def _end(self) -> bytes:
        if not self._form.stream:
            return b""
        with_usage = self._form.include_usage or self._form.usage_in_all
        usage = _event(self._frame([]) | {"usage": self._usage()}) if with_usage else b""
        return usage + _DONE

    def _whole(self, index: int) -> Json:
        form, state = self._form, self._choices[index]
        text = form.echoed[index] + "".join(state.parts)
        choice = self._choice(index, text, state.tokens, state.ids, closing=True)
        if form.with_prompt_ids:
            choice["prompt_token_ids"] = list(form.prompts[index])
        return choice

    def _choice(self, index: int, text: str, tokens: Sequence[TokenText], ids: Sequence[int], *, closing: bool) -> Json:
        choice: Json = {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(tokens) if self._form.with_logprobs else None,
            "finish_reason": self._choices[index].finish_reason if closing else None,
        }
        if self._form.with_ids:
            choice["token_ids"] = list(ids)
        return choice

    def _logprobs(self, tokens: Sequence[TokenText]) -> Json:
        return {
            "tokens": [self._spelled(token.id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{self._spelled(id): logprob for id, logprob in token.top} for token in tokens],
            "text_offset": [token.offset for token in tokens],
        }

    def _spelled(self, id: int) -> str:
        if self._form.ids_for_texts:
            return f"token_id:{id}"
        data = self._tokenizer.decode_bytes([id])
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def _frame(self, choices: list[Json]) -> Json:
        form = self._form
        return {
            "id": form.id,
            "object": "text_completion",
            "created": form.created,
            "model": form.model,
            "system_fingerprint": self._fingerprint,
            "choices": choices,
        }

    def _usage(self) -> Json:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": self._prompt_tokens + self._completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached_tokens},
        }


def _all_tokens(token_ids: Sequence[int], logprobs: Logprobs | None) -> list[TokenText]:
    if logprobs is None:
        return []
    return [TokenText(id, 0, logprob, top) for id, (logprob, top) in zip(token_ids, logprobs, strict=True)]


def _event(content: Json) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
