"""Judges encode cases: what a request becomes, or that it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import deepseek_recipe as recipe
from tests.vectors.encode_rows import MODELS, PROTOCOLS, TOKENIZER

Input = dict[str, Any]

OPTIONS = recipe.Options(models=MODELS)


@dataclass
class Findings:
    """What the codec made of a case's request, or of both of its requests."""

    status: int
    requests: list[recipe.Encoded]
    refusal: str = ""

    @property
    def prompt(self) -> str:
        """The prompt of the first request; empty where it was refused."""
        return self.requests[0].prompt if self.requests else ""

    @property
    def ids(self) -> list[int]:
        """The ids of the first request."""
        return self.requests[0].token_ids.tolist() if self.requests else []


def findings(given: Input) -> Findings:
    """Encodes what a case gives."""
    if "request_pair" in given:
        shared: Input = {key: given[key] for key in ("model", "thinking", "system") if key in given}
        if given["api"] == "messages":
            shared["max_tokens"] = 99
        elif "system" in shared:
            system = [{"role": "system", "content": shared.pop("system")}]
            return encoded(given["api"], [shared | {"messages": system + pair} for pair in given["request_pair"]])
        return encoded(given["api"], [shared | {"messages": messages} for messages in given["request_pair"]])
    return encoded(given["api"], [given["raw_body"] if "raw_body" in given else given["request"]])


def encoded(api: str, bodies: list[Any]) -> Findings:
    """Encodes bodies of one protocol; a refusal of any of them is the finding."""
    try:
        requests = [recipe.encode(body, PROTOCOLS[api], options=OPTIONS) for body in bodies]
    except recipe.RequestError as error:
        return Findings(error.status_code, [], str(error))
    return Findings(200, requests)


def unequal(found: Any, value: Any) -> str | None:
    """That a finding is not what it should be."""
    return None if found == value else f"expected {value!r}, found {found!r}"


def status(found: Findings, value: int) -> str | None:
    """200 is any acceptance; which refusal it is, is the codec's own business."""
    same = found.status // 100 == value // 100
    return None if same else f"expected {value}, found {found.status}: {found.refusal or 'accepted'}"


def listed(value: str | list[str]) -> list[str]:
    """A text or some texts as a list."""
    return [value] if isinstance(value, str) else value


def contains(found: Findings, value: str | list[str]) -> str | None:
    """That the prompt lacks one of some texts."""
    return next(
        (f"the prompt lacks {text!r}: {found.prompt!r}" for text in listed(value) if text not in found.prompt), None
    )


def contains_not(found: Findings, value: str | list[str]) -> str | None:
    """That the prompt has one of some texts."""
    present = [text for text in listed(value) if text in found.prompt]
    return f"the prompt has {present!r}: {found.prompt!r}" if present else None


def control_ids(found: Findings, value: list[int]) -> str | None:
    """That the ids of the added vocabulary are others."""
    added = {token["id"] for token in json.loads(TOKENIZER.read_text(encoding="utf-8"))["added_tokens"]}
    return unequal([id for id in found.ids if id in added], value)


def prefix_property(found: Findings, value: bool) -> str | None:
    """Whether the first prompt, without the opening of the answer, begins the second."""
    if len(found.requests) != 2:
        return f"was refused: {found.refusal}"
    first, second = (request.token_ids.tolist() for request in found.requests)
    tokenizer = recipe.Tokenizer.built_in(found.requests[0].model_version)
    opening = [tokenizer.special_id(text) for text in ("<think>", "</think>", "<｜Assistant｜>")]
    if first[-1] in opening[:2]:
        first.pop()
    if first[-1] == opening[2]:
        first.pop()
    return unequal(second[: len(first)] == first, value)


def constraint(found: Findings, value: str | None) -> str | None:
    """The kind of the constraint on the answer."""
    held = found.requests[0].constraint if found.requests else None
    return unequal(held and held.kind, value)


def image_slots(found: Findings, value: int) -> str | None:
    """The number of image placeholders in the prompt."""
    return unequal(len(found.requests[0].images) if found.requests else 0, value)


COMPARISONS: dict[str, Callable[[Findings, Any], str | None]] = {
    "status": status,
    "prompt": lambda found, value: unequal(found.prompt, value),
    "prompt_contains": contains,
    "prompt_not_contains": contains_not,
    "prompt_tokens": lambda found, value: unequal(len(found.ids), value),
    "control_ids": control_ids,
    "prefix_property": prefix_property,
    "constraint": constraint,
    "image_slots": image_slots,
}
