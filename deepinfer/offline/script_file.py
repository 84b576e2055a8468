"""Script files: rules in TOML that say which text a scripted engine answers to which prompt, compiled to token ids.

    kept_sequences = 64             # how many ended sequences count as cached for prompts that begin alike

    [[rule]]
    match = "weather in Paris"      # a regular expression, searched in the last part of the prompt; absent: any prompt
    in = "last"                     # "last": from the last user or tool message on; "whole": all of it
    output = "Let me look.</think>It is sunny."     # control spellings such as </think> become control tokens
                                  # or a list of texts, each in tokens of its own: a model cuts words in odd places too
    tokens_per_step = 4
    delay_seconds = 0.01
    finish = "stop"                 # or "length"

The first rule that matches wins. Knows no HTTP and no protocol; owns nothing but the compiled rules.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deepseek_recipe as recipe
from deepinfer.backends.scripted import Script
from deepinfer.core import FinishReason, Request
from deepinfer.errors import EngineError
from deepinfer.prompt_format import PromptFormat

_KNOWN_FIELDS: Final = ("match", "in", "output", "tokens_per_step", "delay_seconds", "finish")
_USER_MARK: Final = "<｜User｜>"


class ScriptFileError(Exception):
    """A script file that cannot be used. The message names file, rule and field."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule. `pattern` None matches every prompt."""

    pattern: re.Pattern[str] | None
    whole: bool
    script: Script

    def matches(self, prompt: str) -> bool:
        """Tell whether the rule speaks for this prompt."""
        return self.pattern is None or self.pattern.search(prompt if self.whole else last_part(prompt)) is not None


class RuleBook:
    """The rules of one file; `choose` is what `ScriptedEngine` asks, and keeps `kept_sequences`."""

    def __init__(self, rules: Sequence[Rule], tokenizer: recipe.Tokenizer, *, kept_sequences: int) -> None:
        self.kept_sequences = kept_sequences
        self._rules = rules
        self._tokenizer = tokenizer

    def choose(self, request: Request) -> Script:
        """Return the script of the first rule that matches. Raises `EngineError` if none does."""
        prompt = self._tokenizer.decode(request.token_ids)
        for rule in self._rules:
            if rule.matches(prompt):
                return rule.script
        message = "no rule of the script file matches this prompt; add a last rule without 'match'"
        raise EngineError(message, code="no_script_rule", client_fault=True)


def last_part(prompt: str) -> str:
    """Cut a prompt down to what follows the last user mark: the newest user message with any tool results in it."""
    return prompt[prompt.rfind(_USER_MARK) + 1 :] if _USER_MARK in prompt else prompt


def load_script_file(path: Path, *, recipe_version: PromptFormat) -> RuleBook:
    """Read and compile a script file for the tokenizer of `recipe_version`. Raises `ScriptFileError`."""
    kept_sequences, tables = _read(path)
    tokenizer = recipe.Tokenizer.built_in(recipe_version)
    end = recipe.eos_token_id(recipe_version)
    rules = [_Reader(path, number, table).rule(tokenizer, end) for number, table in enumerate(tables, start=1)]
    for number, rule in enumerate(rules[:-1], start=1):
        if rule.pattern is None:
            raise ScriptFileError(
                f"{path}: rule {number}: match is missing, so the rules after it can never be reached; "
                "give it a match or move it to the end"
            )
    return RuleBook(rules, tokenizer, kept_sequences=kept_sequences)


def _read(path: Path) -> tuple[int, list[Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScriptFileError(f"{path}: {error.strerror}; pass a file that can be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScriptFileError(f"{path}: not valid TOML: {error}") from None
    unknown = sorted(set(content) - {"rule", "kept_sequences"})
    if unknown:
        raise ScriptFileError(
            f"{path}: unknown entry {unknown[0]!r}; a script file has kept_sequences and [[rule]] tables only"
        )
    kept_sequences = content.get("kept_sequences", 64)
    if type(kept_sequences) is not int or kept_sequences < 0:
        raise ScriptFileError(f"{path}: kept_sequences is {kept_sequences!r}; it must be a whole number, at least 0")
    tables = content.get("rule")
    if not isinstance(tables, list) or not tables:
        raise ScriptFileError(f"{path}: there is no rule; write at least one [[rule]] table")
    return kept_sequences, tables


class _Reader:
    """Reads one rule's table, and knows how to say where a fault is."""

    def __init__(self, path: Path, number: int, table: Any) -> None:
        self._place = f"{path}: rule {number}"
        if not isinstance(table, Mapping):
            raise ScriptFileError(f"{self._place}: must be a [[rule]] table")
        self._table: Mapping[str, Any] = table

    def rule(self, tokenizer: recipe.Tokenizer, end: int) -> Rule:
        unknown = [name for name in self._table if name not in _KNOWN_FIELDS]
        if unknown:
            raise self._fault(unknown[0], f"is not a known field; known are {', '.join(_KNOWN_FIELDS)}")
        whole = self._choice("in", ("last", "whole"), "last") == "whole"
        return Rule(pattern=self._pattern(), whole=whole, script=self._script(tokenizer, end))

    def _script(self, tokenizer: recipe.Tokenizer, end: int) -> Script:
        token_ids = [token_id for text in self._output() for token_id in tokenizer.encode(text, special=True)]
        finish_reason = FinishReason(self._choice("finish", ("stop", "length"), "stop"))
        if finish_reason is FinishReason.STOP:
            token_ids.append(end)
        if not token_ids:
            raise self._fault("output", "is empty; an answer that was cut off needs at least one token")
        return Script(
            token_ids=tuple(token_ids),
            tokens_per_step=int(self._number("tokens_per_step", 1, least=1, kind=int)),
            delay_seconds=float(self._number("delay_seconds", 0.0, least=0, kind=float)),
            finish_reason=finish_reason,
        )

    def _pattern(self) -> re.Pattern[str] | None:
        if "match" not in self._table:
            return None
        try:
            return re.compile(self._text("match"))
        except re.error as error:
            raise self._fault("match", f"is not a valid regular expression: {error}") from None

    def _text(self, field: str) -> str:
        if field not in self._table:
            raise self._fault(field, "is missing; it must be a string")
        value = self._table[field]
        if not isinstance(value, str):
            raise self._fault(field, f"is {value!r}; it must be a string")
        return value

    def _output(self) -> list[str]:
        value = self._table.get("output")
        if not isinstance(value, list):
            return [self._text("output")]
        for place, text in enumerate(value):
            if not isinstance(text, str):
                raise self._fault(f"output[{place}]", f"is {text!r}; it must be a string")
        return value

    def _choice(self, field: str, allowed: tuple[str, ...], default: str) -> str:
        value = self._table.get(field, default)
        if value not in allowed:
            raise self._fault(field, f"is {value!r}; it must be one of {', '.join(allowed)}")
        return str(value)

    def _number(self, field: str, default: float, *, least: int, kind: type[int] | type[float]) -> float:
        value = self._table.get(field, default)
        accepted = (int,) if kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted) or not least <= value < float("inf"):
            noun = "a whole number" if kind is int else "a number"
            raise self._fault(field, f"is {value!r}; it must be {noun} of at least {least}")
        return value

    def _fault(self, field: str, text: str) -> ScriptFileError:
        return ScriptFileError(f"{self._place}: {field} {text}")
