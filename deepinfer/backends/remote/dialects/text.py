"""Text over `/v1/completions`, for servers that give no token ids: what was a control token is a guess then.

The prompt goes as ids where the server takes them, else as text too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from deepinfer.backends.remote.dialects import JSON, Features, decoded, finish_of, id_list
from deepinfer.backends.remote.dialects.openai import DONE, Usage, sampling_members
from deepinfer.core import FinishReason, Request, StepOutput

Spell = Callable[[Sequence[int]], str]


class _Choice(msgspec.Struct):
    text: str = ""
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: Any = None


_CHUNKS: Final = msgspec.json.Decoder(_Chunk)


class TextDialect:
    """Any server of OpenAI's text completions. `spell` writes a prompt as text; None where it goes as ids."""

    path: Final = "/v1/completions"
    media_type: Final = JSON
    name: Final = "completions without token ids"
    features: Final = Features(token_ids=False)

    def __init__(self, model: str, spell: Spell | None) -> None:
        self._model = model
        self._spell = spell

    def body(self, request: Request) -> bytes:
        """Write a request that streams."""
        ids = request.token_ids
        body: dict[str, Any] = sampling_members(request) | {
            "model": self._model,
            "prompt": id_list(ids) if self._spell is None else self._spell(ids),
            "stream": True,
            "stream_options": {"include_usage": True},
            # The prompt has its control tokens, and those of the answer are to be seen in the text.
            "add_special_tokens": False,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        for name, value, neutral in (
            ("top_k", request.sampling.top_k, None),
            ("min_p", request.sampling.min_p, 0.0),
            ("repetition_penalty", request.sampling.repetition_penalty, 1.0),
        ):
            if value != neutral:
                body[name] = value
        return msgspec.json.encode(body)

    def reader(self, request: Request) -> TextReader:
        """Read its answer."""
        return TextReader()


class TextReader:
    """Reads one answer. Tokens are counted by events until the server tells how many there were."""

    def __init__(self) -> None:
        self.finish: FinishReason | None = None
        self.complete = False
        self._count = 0

    def read(self, events: Sequence[bytes]) -> StepOutput | None:
        """Make one output of all events. Raises `UpstreamFaultError`."""
        parts: list[str] = []
        counted = self._count
        cached_tokens = None
        for event in events:
            if event == DONE:
                self.complete = True
                break
            chunk = decoded(_CHUNKS, event)
            for choice in chunk.choices:
                if choice.text:
                    parts.append(choice.text)
                    self._count += 1
                if choice.finish_reason is not None:
                    self.finish = finish_of(choice.finish_reason)
            if chunk.usage is not None:
                cached_tokens = chunk.usage.cached_tokens
                self._count = max(self._count, chunk.usage.completion_tokens)
        if not parts and self._count == counted and cached_tokens is None:
            return None
        return StepOutput(
            token_ids=(), text="".join(parts), text_tokens=self._count - counted, cached_tokens=cached_tokens
        )
