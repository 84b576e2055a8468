"""`recipe explain`: which field of a request does each token come from?"""

from __future__ import annotations

import argparse
import json
import re
import sys

import deepseek_recipe as recipe

from .requests import add_request_arguments, body_of, options_of, shown
from .table import DIM, FIELD, print_table

FORMAT = "(format)"
# Inside of these, every word of a schema is a field of its own.
DECLARATIONS = re.compile(
    r"(input\[\d+\]\.)?tools(\[\d+\](\.tools\[\d+\])?)?|response_format|(text|output_config)\.format"
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `recipe explain`."""
    add_request_arguments(command)
    command.add_argument("--full", action="store_true", help="every field of tools and schemas, not one line for each")
    command.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """`recipe explain`."""
    spans = recipe.explain(body_of(parsed.file), parsed.protocol, options=options_of(parsed))
    count = spans[-1].end if spans else 0
    if parsed.json:
        fields = [{"start": span.start, "end": span.end, "path": span.path, "text": span.text} for span in spans]
        print(json.dumps({"tokens": count, "spans": fields}, ensure_ascii=False))
        return 0
    lines = [(span.path, span.end - span.start, span.text) for span in spans]
    lines = lines if parsed.full else joined(lines)
    rows = [(path or FORMAT, str(tokens), shown(text)) for path, tokens, text in lines]
    print_table([("FIELD", "TOKENS", "TEXT"), *rows], right=(1,), colours=[FIELD if line[0] else DIM for line in lines])
    print(f"\n{count} tokens", file=sys.stderr)
    return 0


def joined(lines: list[tuple[str | None, int, str]]) -> list[tuple[str | None, int, str]]:
    """The lines with one for each tool and each schema."""
    result: list[tuple[str | None, int, str]] = []
    for path, tokens, text in lines:
        declaration = DECLARATIONS.match(path) if path else None
        name = declaration.group() if declaration else path
        if result and declaration and result[-1][0] == name:
            result[-1] = (name, result[-1][1] + tokens, result[-1][2] + text)
        else:
            result.append((name, tokens, text))
    return result
