"""The shell examples of `docs/explain.md`, run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from deepseek_recipe import cli

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```json (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ recipe (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert len(FILES) == len(COMMANDS) == 3


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, shown: str
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert cli.main(shlex.split(command)) == 0
    assert capsys.readouterr().out == shown
