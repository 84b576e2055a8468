"""The JSON-Schema-Test-Suite against grammars of response formats: `python tests/structured/schema_suite.py`.

Prints for each file of the suite how many cases are supported, refused and wrong. A case is a schema with its
instances. It is wrong if the grammar rejects a valid instance in every spelling, or accepts an invalid one in any:
spellings differ in the order of members and in how whole numbers are written; white space and escapes are the
grammar's. The formats of strings are enforced here, which the draft leaves open, and may be narrower than the format:
they are counted apart.
"""

import functools
import gzip
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llguidance

import deepseek_recipe as recipe

CASES = Path(__file__).with_name("draft2020-12.jsonl.gz")
FORMATS = "optional/format/"
# Its cases say that formats are annotations.
SKIPPED = {"format"}
# More spellings than this are not tried; no instance of the suite has as many.
MOST_SPELLINGS = 10_000


@dataclass
class Outcome:
    """What became of the schemas of one file."""

    supported: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    narrower: list[str] = field(default_factory=list)


@functools.cache
def byte_tokenizer() -> llguidance.LLTokenizer:
    """One token for each byte: what a grammar accepts does not depend on the vocabulary."""
    return llguidance.LLTokenizer("byte")


def grammar_of(schema: Any) -> str:
    """The grammar of an answer in this format. Raises `RequestError` if there is none."""
    body = {
        "model": "DeepSeek-V4-Pro",
        "messages": [{"role": "user", "content": "json"}],
        "thinking": {"type": "disabled"},
        "response_format": {"type": "json_schema", "json_schema": {"name": "case", "schema": schema}},
    }
    grammar = recipe.encode(json.dumps(body), "chat_completions").grammar
    assert grammar is not None
    return grammar.text


@functools.lru_cache(maxsize=1)
def matcher_of(grammar: str) -> llguidance.LLMatcher:
    """The engine of a grammar, for any number of answers."""
    matcher = llguidance.LLMatcher(byte_tokenizer(), grammar)
    assert not matcher.is_error(), f"{matcher.get_error()}\n{grammar}"
    return matcher


def accepts(grammar: str, text: str) -> bool:
    """Whether `text` is a whole answer to `grammar`."""
    matcher = matcher_of(grammar)
    matcher.reset()
    tokens = byte_tokenizer().tokenize_bytes(text.encode())
    if matcher.validate_tokens(tokens) < len(tokens):
        return False
    return bool(matcher.consume_tokens(tokens) and matcher.is_accepting())


def spellings(value: Any) -> Iterator[str]:
    """The ways to write `value` as the prompt format writes JSON."""
    if isinstance(value, dict):
        for order in itertools.permutations(value.items()):
            for members in itertools.product(*(list(spellings(member)) for _, member in order)):
                pairs = zip(order, members, strict=True)
                yield (
                    "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {text}" for (key, _), text in pairs) + "}"
                )
    elif isinstance(value, list):
        for items in itertools.product(*(list(spellings(item)) for item in value)):
            yield "[" + ", ".join(items) + "]"
    else:
        yield json.dumps(value, ensure_ascii=False)
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            yield f"{value}.0"


def judge(case: dict[str, Any], outcome: Outcome) -> None:
    """Holds the grammar of one schema against its instances."""
    try:
        grammar = grammar_of(case["schema"])
    except recipe.RequestError as error:
        refused_here = error.code in ("unsupported_schema", "invalid_schema")
        outcome.refused += refused_here
        if not refused_here:
            outcome.wrong.append(f"{case['description']}: {error}")
        return
    outcome.supported += 1
    for description, instance, valid in case["tests"]:
        texts = itertools.islice(spellings(instance), MOST_SPELLINGS)
        accepted = any(accepts(grammar, text) for text in texts)
        if accepted != valid:
            is_narrower = valid and case["file"].startswith(FORMATS)
            kind = outcome.narrower if is_narrower else outcome.wrong
            kind.append(
                f"{case['description']}: {description}: {json.dumps(instance)} is {'valid' if valid else 'invalid'}"
            )


@functools.cache
def run() -> dict[str, Outcome]:
    """The outcome of every file of the suite."""
    outcomes: dict[str, Outcome] = {}
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if case["file"] not in SKIPPED:
                judge(case, outcomes.setdefault(case["file"], Outcome()))
    return outcomes


def table(outcomes: dict[str, Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    rows = ["| keyword | supported | refused | wrong | narrower |", "| --- | ---: | ---: | ---: | ---: |"]
    total: Counter[str] = Counter()
    for name, outcome in outcomes.items():
        counts = {
            "supported": outcome.supported,
            "refused": outcome.refused,
            "wrong": len(outcome.wrong),
            "narrower": len(outcome.narrower),
        }
        total.update(counts)
        rows.append(f"| {name} | {' | '.join(str(count) for count in counts.values())} |")
    rows.append(f"| all | {' | '.join(str(total[key]) for key in ('supported', 'refused', 'wrong', 'narrower'))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    result = run()
    sys.stdout.write(table(result) + "\n")
    for file, outcome in result.items():
        for fault in outcome.wrong + outcome.narrower:
            sys.stdout.write(f"{file}: {fault}\n")
