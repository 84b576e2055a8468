"""How upstreams are spoken to: one module for each dialect, and here what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from deepinfer.backends.remote.faults import broken, error_event
from deepinfer.core import FinishReason, Request, StepOutput


class GrammarForm(Enum):
    """What an upstream can do with a grammar."""

    NONE = "none"
    # Holds an answer to it from the first token on.
    FROM_THE_START = "from the start"
    # Knows when thinking ends, triggers, and limits of thinking.
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Features:
    """What an upstream offers. `token_ids`: its answers have them; without them there are only texts."""

    token_ids: bool = True
    grammar: GrammarForm = GrammarForm.NONE


class AnswerReader(Protocol):
    """Reads one answer. `finish` is known once the upstream said why it ended; `complete` when nothing more comes."""

    finish: FinishReason | None
    complete: bool

    def read(self, events: Sequence[bytes]) -> StepOutput | None:
        """Make one output, without a reason of the end, of all events. Raises `UpstreamFaultError`."""


class Dialect(Protocol):
    """One way to ask and to be answered."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def path(self) -> str:
        """Where requests go."""

    @property
    def features(self) -> Features:
        """What the upstream offers in it."""

    @property
    def media_type(self) -> str:
        """Of the bodies of requests."""

    def body(self, request: Request) -> bytes:
        """Write a request that streams."""

    def reader(self, request: Request) -> AnswerReader:
        """Read its answer."""


JSON: Final = "application/json"
# Of 0, some servers refuse; so small a share keeps the likeliest token, as 0 does.
LEAST_TOP_P: Final = 1e-9


def id_list(token_ids: Sequence[int]) -> list[int]:
    """The ids as a list, for JSON."""
    return token_ids.tolist() if isinstance(token_ids, memoryview) else list(token_ids)


def check_ids(token_ids: Sequence[int], vocabulary_size: int) -> None:
    """Raise `UpstreamFaultError` for ids that are none."""
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < vocabulary_size):
        raise broken(f"it sent a token id that is not below {vocabulary_size}, the size of the vocabulary")


class Event(Protocol):
    """What every event may be."""

    error: Any


EventType = TypeVar("EventType", bound=Event)


def decoded(decoder: msgspec.json.Decoder[EventType], data: bytes) -> EventType:
    """Read an event. Raises `UpstreamFaultError` for one that cannot be read or is an error."""
    try:
        event = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(f"it sent an event that cannot be read: {error}") from None
    if event.error is not None:
        raise error_event(data)
    return event


_FINISH_REASONS: Final[dict[Any, FinishReason]] = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def finish_of(word: Any) -> FinishReason:
    """Read why an answer ended. Raises `UpstreamFaultError` for all but an end or a limit."""
    reason = _FINISH_REASONS.get(word)
    if reason is None:
        raise broken(f"it ended the answer: {str(word)[:100]}")
    return reason
