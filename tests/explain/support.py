"""Requests to explain, and values by their paths."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import deepseek_recipe as recipe
from tests.vectors import encode_rows

VECTORS = Path(__file__).parents[1] / "vectors" / "encode.jsonl.gz"
STEP = re.compile(r'\.?([^.\[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


class Case(NamedTuple):
    """A request that is accepted."""

    name: str
    body: dict[str, Any]
    protocol: str
    options: recipe.Options
    encoded: recipe.Encoded

    def explained(self) -> list[recipe.Span]:
        return recipe.explain(text_of(self.body), self.protocol, options=self.options)


def text_of(body: Any) -> str:
    """A body as JSON text."""
    return json.dumps(body, ensure_ascii=False)


@functools.cache
def cases() -> list[Case]:
    """All requests of the encode vectors that are accepted."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = []
    for row in rows:
        if row["protocol"] == "conversation" or "request" not in row:
            continue
        try:
            encoded = encode_rows.encoded(row)
        except recipe.RequestError:
            continue
        protocol = encode_rows.PROTOCOLS[row["protocol"]]
        found.append(Case(row["id"], row["request"], protocol, encode_rows.options(row), encoded))
    return found


def value_at(body: Any, path: str) -> Any:
    """The value that a path names; raises if there is none."""
    value, end = body, 0
    while end < len(path):
        step = STEP.match(path, end)
        assert step, f"{path!r} is no path at {end}"
        key, index, quoted = step.groups()
        value = value[int(index) if index else key or json.loads(quoted)]
        end = step.end()
    return value


def tiling_fault(spans: list[recipe.Span], encoded: recipe.Encoded) -> str | None:
    """What is wrong with spans that must account for every token of a prompt, or None."""
    if [span.start for span in spans] + [len(encoded.token_ids)] != [0] + [span.end for span in spans]:
        return "leave tokens out"
    if any(span.start >= span.end for span in spans):
        return "are empty"
    if any(one.path == other.path for one, other in itertools.pairwise(spans)):
        return "could be joined"
    return None if "".join(span.text for span in spans) == encoded.prompt else "have other texts"
