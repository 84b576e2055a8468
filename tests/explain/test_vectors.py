"""Every request of the vectors: all tokens are accounted for, and their fields hold what they say."""

from __future__ import annotations

import json
import re
from typing import Any

import deepseek_recipe as recipe
from tests.explain.support import Case, cases, text_of, tiling_fault, value_at

PLAIN = re.compile(
    r"(.*\.)?(content|text|instructions|thinking|reasoning_content|input|system|output|description|name)$"
)
SCHEMA = re.compile(r"\b(parameters|input_schema|schema)\b")
# Parameters for arguments that are no object, and for free text.
NAMED_BY_THE_CODEC = ("arguments", "input")
# A token may hold the end of one stretch and the beginning of the next: as much as this of a span is its neighbours'.
SHARED_TOKEN = 8


def test_the_vectors_cover_all_protocols_and_versions() -> None:
    kinds = {(case.protocol, case.encoded.model_version) for case in cases()}
    assert len(kinds) == 6 and len(cases()) > 600


def test_spans_account_for_every_token() -> None:
    faults = {case.name: fault for case in cases() if (fault := tiling_fault(case.explained(), case.encoded))}
    assert not faults


def test_a_dict_is_explained_as_its_text_is() -> None:
    for case in cases()[::20]:
        spans = recipe.explain(case.body, case.protocol, options=case.options)
        assert list(map(repr, spans)) == list(map(repr, case.explained()))


def test_every_path_leads_somewhere() -> None:
    for case in cases():
        for span in case.explained():
            assert span.path is None or value_at(case.body, span.path) is not value_at, (case.name, span.path)


def test_a_string_contains_the_text_of_its_span() -> None:
    checked, faults = 0, []
    for case in cases():
        for span in case.explained():
            value = value_at(case.body, span.path) if span.path else None
            if isinstance(value, str) and span.path and PLAIN.match(span.path) and not SCHEMA.search(span.path):
                checked += 1
                if not holds(value, span.text):
                    faults.append((case.name, span.path, value, span.text))
    assert not faults
    assert checked > 5000


def holds(value: str, text: str) -> bool:
    """Whether a text is part of a value, but for what its first and last token share with their neighbours."""
    forms = {value, value.strip(), json.dumps(value, ensure_ascii=False), *NAMED_BY_THE_CODEC}
    cuts = [(start, end) for start in range(SHARED_TOKEN) for end in range(SHARED_TOKEN) if start + end < len(text)]
    return any(text[start : len(text) - end] in form for start, end in cuts for form in forms)


def test_every_text_that_is_shown_has_its_field() -> None:
    """The other way round: what a message says is nowhere the format's."""
    for case in cases():
        spans = case.explained()
        shown = [text for text in said(case) if case.encoded.prompt.count(text) == 1]
        for text in shown:
            start = case.encoded.prompt.index(text)
            assert all(path is not None for path in paths_within(spans, start + 2, start + len(text) - 2)), (
                case.name,
                text,
            )


def said(case: Case) -> list[str]:
    """Longer texts of messages."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else []
        return [text for part in parts for text in texts(part)]

    found = texts(case.body.get("messages", [])) + texts(case.body.get("input", []))
    return [text for text in found if len(text) > 20 and "\n" not in text]


def paths_within(spans: list[recipe.Span], start: int, end: int) -> list[str | None]:
    """The paths of a stretch of the prompt, in code points."""
    paths, place = [], 0
    for span in spans:
        if place < end and place + len(span.text) > start:
            paths.append(span.path)
        place += len(span.text)
    return paths


def test_text_and_dict_differ_in_nothing_but_form() -> None:
    case = cases()[0]
    assert recipe.diff(case.body, text_of(case.body), case.protocol, options=case.options).first is None
