"""The examples in the codec's documents, run as they stand."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from deepseek_recipe import cli

DOCS = Path(__file__).parents[2] / "docs"
RULES = (DOCS / "dsml.md").read_text(encoding="utf-8")
OUTPUTS = re.findall(r"^(```+)dsml *(.*?)\n(.*?)\n\1\n\n```text\n(.*?)^```$", RULES, re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("dsml.md", "events.md", "explain.md", "history.md", "migrating.md", "model.md", "structured_output.md")
PROGRAMS = [*(DOCS / page for page in PAGES), *sorted((DOCS / "protocols").glob("*.md"))]


def printed(program: str) -> str:
    """What a program prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(program, "example", "exec"), {"__name__": "example"})
    return out.getvalue()


def test_every_rule_has_an_example() -> None:
    assert RULES.count("```dsml") == len(OUTPUTS) == 14


@pytest.mark.parametrize(("options", "output", "shown"), [example[1:] for example in OUTPUTS])
def test_an_output_is_read_as_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: str, output: str, shown: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(output))
    assert cli.main(["decode", *shlex.split(options)]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_prints_what_is_shown(path: Path) -> None:
    examples = PROGRAM.findall(path.read_text(encoding="utf-8"))
    assert examples
    for program, shown in examples:
        assert printed(program) == shown
