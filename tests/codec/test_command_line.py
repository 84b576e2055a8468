"""`recipe encode` and `recipe count` as a user runs them: from a file, from standard input, and with mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import deepseek_recipe as recipe

REQUEST = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "你好"}]}
BODY = json.dumps(REQUEST, ensure_ascii=False)
IDS = recipe.encode(REQUEST, "chat_completions").token_ids.tolist()


def run(*arguments: str, body: str = BODY) -> subprocess.CompletedProcess[str]:
    """Runs the command with `body` on standard input."""
    command = [sys.executable, "-X", "utf8", "-m", "deepseek_recipe.cli", *arguments]
    return subprocess.run(command, input=body, capture_output=True, text=True, encoding="utf-8", check=False)


def test_prompt_of_standard_input() -> None:
    result = run("encode")
    assert result.returncode == 0
    assert result.stdout.endswith("<｜User｜>你好<｜Assistant｜><think>\n")
    assert f"{len(IDS)} tokens, DeepSeek-V4.1-Flash (v4.1)" in result.stderr


def test_ids_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(BODY, encoding="utf-8")
    result = run("encode", "--ids", str(file), body="")
    assert (result.returncode, result.stdout) == (0, " ".join(map(str, IDS)) + "\n")


def test_everything_as_json() -> None:
    result = run("encode", "--json", "-")
    summary = json.loads(result.stdout)
    assert (summary["token_ids"], summary["version"], summary["stream"]) == (IDS, "v4.1", False)
    assert summary["prompt"].endswith("<think>")


def test_count() -> None:
    assert run("count").stdout == f"{len(IDS)}\n"
    assert json.loads(run("count", "--json").stdout) == {"tokens": len(IDS)}


def test_other_protocols_and_models() -> None:
    body = json.dumps({"model": "house=1", "input": "q", "tools": [{"type": "mcp"}]})
    result = run("encode", "--protocol", "responses", "--model", "house=1=v4", body=body)
    assert result.returncode == 0
    assert "house=1 (v4)" in result.stderr
    assert "warning: tools[0]: the tool mcp was left out" in result.stderr


def test_refused_requests_end_with_1() -> None:
    result = run("encode", body=BODY.replace("user", "wizard"))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("encode: refused (400 unknown_value): messages[0].role must be one of")
    assert "Traceback" not in result.stderr


def test_wrong_calls_end_with_2(tmp_path: Path) -> None:
    for arguments, message in [
        (["encode", str(tmp_path / "none.json")], "No such file"),
        (["encode", "--model", "house"], "--model takes NAME=VERSION"),
        (["encode", "--model", "house=v9"], "not 'house=v9'"),
        (["encode", "--protocol", "smoke"], "invalid choice"),
        ([], "COMMAND"),
    ]:
        result = run(*arguments)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_bodies_that_are_no_json() -> None:
    for body in ["", "{", "[]", "\ufeff" + BODY]:
        result = run("count", body=body)
        assert (result.returncode, result.stdout) == (1, "")
        assert "refused (400" in result.stderr
