"""A request to generate, read and ready for the engine, whatever protocol it came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deepinfer.core import Request
from deepinfer.server.decoding import AnswerDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What is to become of an answer that outlives its request: `store` for later use, `background` to run alone.

    `input_items` is a JSON array, the request's input. `keep_events` says that its stream may be read again.
    """

    store: bool
    background: bool
    keep_events: bool
    input_items: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One request. `requests` has one engine request per choice, `prompt` the text of what they ask.

    `decoder` makes the answer's decoder: called once, when the engine has the requests already.
    """

    answer_id: str
    model: str
    stream: bool
    requests: Sequence[Request]
    decoder: Callable[[], AnswerDecoder]
    prompt_tokens: int
    prompt: Callable[[], str]
    single_call: bool = False
    warnings: Sequence[str] = ()
    keeping: Keeping | None = None
