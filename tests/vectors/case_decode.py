"""Judges decode cases: what an output becomes, however it is cut.

Whatever a case expects, its answer obeys the laws: every cut gives the same, the stream folds to the full response,
arguments of complete calls are JSON, and neither control tokens nor markup of a call that was made are visible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.vectors.case_encode import listed
from tests.vectors.case_output import Answer, Decoding, Piece, decoding, ids_of, pieces
from tests.vectors.folds import BrokenStreamError

Input = dict[str, Any]

SIZES = (1, 2, 3, 5, 8, 13, 21, 34)
CONTROL = (
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<｜latest_reminder｜>"),
    *("<｜User｜>", "<｜Assistant｜>", "<｜System｜>"),
)


class FaultError(Exception):
    """What a case's answer got wrong."""


def findings(given: Input) -> Answer:
    """Decodes what a case gives, in the case's own chunks; raises `FaultError` where a law is broken."""
    case = decoding(given)
    output = pieces(given)
    own = answer_of(case, given_chunks(given, output))
    for name, chunks in cuts(output):
        other = answer_of(case, chunks)
        if other.visible != own.visible:
            raise FaultError(f"{name} gives another answer: {other.visible!r} instead of {own.visible!r}")
    check_laws(own, given)
    return own


def given_chunks(given: Input, output: Piece) -> Sequence[Piece]:
    """The case's own chunks."""
    match given.get("chunks", "all splits"):
        case "all splits":
            return [output]
        case "one token per push":
            return sized(output, 1)
        case list() as listed_chunks if "token_bytes_hex" not in given:
            chunks = listed_chunks if isinstance(output, str) else [ids_of(given, chunk) for chunk in listed_chunks]
            if [part for chunk in chunks for part in chunk] != list(output):
                raise FaultError("the chunks are not the output")
            return chunks
        case chunks:
            raise FaultError(f"chunks that nothing judges: {chunks!r}")


def cuts(output: Piece) -> Iterator[tuple[str, Sequence[Piece]]]:
    """Every cut in two, and cuts in equal parts. A very long output is cut in two at some places only."""
    step = max(1, len(output) // 2000)
    for place in range(0, len(output) + 1, step):
        yield f"the cut at {place}", [output[:place], output[place:]]
    for size in SIZES:
        yield f"chunks of {size}", sized(output, size)


def sized(output: Piece, size: int) -> list[Piece]:
    """`output` in parts of one size."""
    return [output[place : place + size] for place in range(0, len(output), size)]


def answer_of(case: Decoding, chunks: Sequence[Piece]) -> Answer:
    """The answer that some chunks give."""
    try:
        return case.answer(chunks)
    except BrokenStreamError as fault:
        raise FaultError(f"breaks its protocol: {fault}") from None


def check_laws(answer: Answer, given: Input) -> None:
    """The laws that do not depend on cuts."""
    if answer.streamed != answer.whole:
        raise FaultError(f"the stream gives {answer.streamed!r}, the response {answer.whole!r}")
    for name, arguments, is_complete in answer.calls:
        try:
            value = json.loads(arguments)
        except ValueError:
            value = None
        if is_complete and not isinstance(value, dict):
            raise FaultError(f"the arguments of {name!r} are no JSON object: {arguments!r}")
    shown = answer.reasoning + answer.content
    for token in CONTROL:
        if token in shown + "".join(arguments for _, arguments, _ in answer.calls):
            raise FaultError(f"{token} is visible")
    if "output" in given:
        check_markup(answer, shown, given["output"])


def check_markup(answer: Answer, shown: str, output: str) -> None:
    """Markup either made a call or is text, never both."""
    for name in {name for name, _, _ in answer.calls}:
        opener = f'invoke name="{name}"'
        made = sum(called == name for called, _, _ in answer.calls)
        if shown.count(opener) + made > output.count(opener):
            raise FaultError(f"markup of a call of {name!r} is visible: {shown!r}")
    if answer.calls and "</｜DSML｜" in shown and "<｜DSML｜" not in shown:
        raise FaultError(f"an end tag of a call is visible: {shown!r}")


def unequal(found: Any, value: Any) -> str | None:
    """That a finding is not what it should be. Numbers compare by value, and are not taken for booleans."""
    same = json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)
    return None if same else f"expected {value!r}, found {found!r}"


def lacks(found: str, value: str | list[str]) -> str | None:
    """That a text lacks one of some texts."""
    return next((f"{text!r} is not in {found!r}" for text in listed(value) if text not in found), None)


def has(found: str, value: str | list[str]) -> str | None:
    """That a text has one of some texts."""
    return next((f"{text!r} is in {found!r}" for text in listed(value) if text in found), None)


def raw(answer: Answer) -> str:
    """Text of all arguments."""
    return "\n".join(arguments for _, arguments, _ in answer.calls)


def calls(answer: Answer, value: list[Any]) -> str | None:
    """That the calls are others."""
    found = []
    for name, arguments, _ in answer.calls:
        try:
            found.append([name, json.loads(arguments)])
        except ValueError:
            return f"arguments that are no JSON: {arguments!r}"
    return unequal(found, value)


def unique_keys(answer: Answer, value: bool) -> str | None:
    """Whether no object in the arguments has a key twice."""
    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        repeated.extend(name for name in set(names) if names.count(name) > 1)

    for _, arguments, _ in answer.calls:
        json.loads(arguments, object_pairs_hook=note)
    return None if (not repeated) == value else f"keys that are repeated: {repeated!r}"


COMPARISONS: dict[str, Callable[[Answer, Any], str | None]] = {
    "content": lambda answer, value: unequal(answer.content, value),
    "content_contains": lambda answer, value: lacks(answer.content, value),
    "reasoning": lambda answer, value: unequal(answer.reasoning, value),
    "calls": calls,
    "calls_raw_contains": lambda answer, value: lacks(raw(answer), value),
    "args_not_contains": lambda answer, value: has(raw(answer), value),
    "unique_keys": unique_keys,
    "finish": lambda answer, value: unequal(answer.finish, value),
    "stop_reason": lambda answer, value: unequal(answer.stop_reason, value),
    "terminal": lambda answer, value: unequal(answer.terminal, value),
    "block_types": lambda answer, value: unequal(answer.block_types, value),
    "item_types": lambda answer, value: unequal(answer.item_types, value),
    "input": lambda answer, value: unequal(answer.input, value),
    "max_calls": lambda answer, value: None if len(answer.calls) <= value else f"{len(answer.calls)} calls",
}
