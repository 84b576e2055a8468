"""`recipe explain` and `recipe diff`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe as recipe
from deepseek_recipe import cli
from deepseek_recipe.commands import table

TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def request(*texts: str, **members: Any) -> dict[str, Any]:
    """A chat of some texts, the user's first."""
    roles = [("assistant", "user")[place % 2 == 0] for place in range(len(texts))]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    return {"model": "DeepSeek-V4.1-Flash", "messages": messages, "thinking": {"type": "disabled"}} | members


def saved(path: Path, *bodies: dict[str, Any]) -> str:
    """A file with a body a line."""
    path.write_text("\n\n".join(json.dumps(body) for body in bodies), encoding="utf-8")
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints."""
    assert cli.main([*arguments]) == 0
    return capsys.readouterr().out


def test_the_table_of_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path / "a", request("Hello", "Hi!", "How are you?"))
    assert printed(capsys, "explain", file).splitlines() == [
        "FIELD                TOKENS  TEXT",
        '(format)                  2  "<｜begin▁of▁sentence｜><｜User｜>"',
        'messages[0].content       1  "Hello"',
        '(format)                  2  "<｜Assistant｜></think>"',
        'messages[1].content       2  "Hi!"',
        '(format)                  2  "<｜end▁of▁sentence｜><｜User｜>"',
        'messages[2].content       4  "How are you?"',
        '(format)                  1  "<｜Assistant｜>"',
        'thinking                  1  "</think>"',
    ]


def test_a_tool_is_one_line_unless_all_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path / "a", request("Hello", tools=[{"type": "function", "function": TOOL}]))
    names = [line.split()[0] for line in printed(capsys, "explain", file).splitlines()[1:]]
    assert names[:4] == ["(format)", "tools", "tools[0]", "tools"]
    full = printed(capsys, "explain", "--full", file)
    assert "tools[0].function.parameters.properties.city.type" in full
    assert all(len(line) <= table.WIDTH for line in full.splitlines())


def test_json_has_every_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(request("Hello")).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
    shown = json.loads(printed(capsys, "explain", "--json", "-"))
    spans = recipe.explain(body, "chat_completions")
    assert shown["tokens"] == spans[-1].end == recipe.count_tokens(body, "chat_completions")
    assert [span["path"] for span in shown["spans"]] == [span.path for span in spans]


def test_colours_are_for_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(tmp_path / "a", request("Hello"))
    assert "\x1b" not in printed(capsys, "explain", file)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert table.FIELD in printed(capsys, "explain", file)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in printed(capsys, "explain", file)


def test_two_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [saved(tmp_path / name, request("Hello", text, "Well?")) for name, text in (("a", "Hi!"), ("b", "Hey!"))]
    assert printed(capsys, "diff", *files).splitlines() == [
        'the two requests part at messages[1].content: "Hi!" in the first, "Hey!" in the second',
        "shared: 5 tokens",
        "first:  13 tokens, 38.5% of them shared",
        "second: 13 tokens, 38.5% of them shared",
    ]
    shown = json.loads(printed(capsys, "diff", "--json", *files))
    assert (shown["shared"], shown["path"], shown["first"]["text"]) == (5, "messages[1].content", "Hi!")


def test_sentences() -> None:
    def sentence(first: dict[str, Any], second: dict[str, Any]) -> str:
        return str(recipe.diff(first, second, "chat_completions"))

    plain, prefix = request("Hello"), request("Hello", "Hi")
    prefix["messages"][1]["prefix"] = True
    longer = json.loads(json.dumps(prefix))
    longer["messages"][1]["content"] = "Hi, friend"
    assert sentence(plain, plain) == "the two requests have the same prompt"
    assert sentence(prefix, longer) == (
        'the first prompt is the beginning of the second, which goes on with messages[1].content (", friend")'
    )
    assert sentence(longer, prefix) == (
        'the second prompt is the beginning of the first, which goes on with messages[1].content (", friend")'
    )
    thinking = plain | {"thinking": {"type": "enabled"}}
    assert sentence(plain, thinking) == (
        'the two requests part where the first has text of the format ("<｜User｜>") '
        'and the second text of the format ("<｜System｜>")'
    )
    effort = [thinking | {"reasoning_effort": effort} for effort in ("low", "max")]
    assert sentence(*effort).startswith('the two requests part at reasoning_effort: "50 (range 1-100')


def test_a_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = request("Hello"), request("Hello", "Hi!", "Well?")
    edited = request("Hello there", "Hi!", "Well?")
    file = saved(tmp_path / "a", first, second, edited, second)
    assert printed(capsys, "diff", file).splitlines() == [
        "REQUEST  TOKENS  CACHED   SHARE  BY  UNTIL",
        "      1       5       0    0.0%",
        "      2      13       5   38.5%   1  messages[1].content",
        "      3      14       3   21.4%   1  messages[0].content",
        "      4      13      13  100.0%   2  the end",
        "    all      45      21   46.7%",
    ]
    shown = json.loads(printed(capsys, "diff", "--json", file))
    assert [turn["earlier"] for turn in shown["turns"]] == [None, 0, 0, 1]
    assert shown["turns"][2]["difference"]["path"] == "messages[0].content"


def test_refusals_name_the_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path / "a", request("Hello"), {"model": "DeepSeek-V4.1-Flash"})
    assert cli.main(["diff", file]) == 1
    assert capsys.readouterr().err == ("diff: refused (400 missing_field) in requests[1]: messages is required\n")
    assert cli.main(["explain", str(tmp_path / "absent")]) == 2
    assert cli.main(["explain", "--model", "x=v5", file]) == 2
