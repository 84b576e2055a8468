"""Judges one case: a field report turned into a small input with the right answer.

A case whose input or expectation has a key that is not known here fails, so that nothing is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import deepseek_recipe as recipe
from tests.vectors import case_decode, case_encode

Row = dict[str, Any]

KINDS = ("encode", "decode", "serve", "engine")
# Kinds that are judged by themselves; they need more than the codec.
DEFAULT_KINDS = KINDS[:2]
INPUTS = {
    "encode": {"api", "request", "raw_body", "request_pair", "model", "thinking", "system"},
    "decode": {
        *("api", "model", "thinking", "tools", "custom_tools", "tool_choice", "stop", "finish", "chunks"),
        *("output", "token_pieces", "token_bytes_hex"),
    },
    "serve": {"steps"},
    "engine": {"request", "steps", "grammar_accept_tests"},
}
FINDINGS: dict[str, Callable[[Row], Any]] = {"encode": case_encode.findings, "decode": case_decode.findings}
Comparisons = Mapping[str, Callable[[Any, Any], str | None]]
COMPARISONS: dict[str, Comparisons] = {"encode": case_encode.COMPARISONS, "decode": case_decode.COMPARISONS}
EXPECTATIONS: dict[str, Collection[str]] = {**COMPARISONS, "serve": ("statuses", "max_calls"), "engine": ()}


def check(row: Row, deviation: Row | None = None) -> str | None:
    """What a case's answer got wrong first, or None. Cases have no deviations: their answers are what is right."""
    kind, expected = row["kind"], row["expect"]["value"] or {}
    unknown = (
        set(row["input"]) - INPUTS[kind]
        | set(row["expect"]) - {"text", "value"}
        | set(expected) - set(EXPECTATIONS[kind])
    )
    if unknown:
        return f"has keys that nothing judges: {', '.join(sorted(unknown))}"
    if kind in ("serve", "engine"):
        return _check_in_motion(kind, row)
    comparisons = COMPARISONS[kind]
    try:
        found = FINDINGS[kind](row["input"])
        return next((wrong for key, value in expected.items() if (wrong := comparisons[key](found, value))), None)
    except case_decode.FaultError as fault:
        return str(fault)
    except recipe.RequestError as error:
        return f"its request is refused: {error}"


def _check_in_motion(kind: str, row: Row) -> str | None:
    # Imported here: the codec's cases run where neither server nor engine is installed.
    if kind == "serve":
        from tests.vectors import case_serve

        return case_serve.check(row)
    from tests.vectors import case_engine

    return case_engine.check(row)
