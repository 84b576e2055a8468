"""`recipe decode`: a model's output from the shell."""

from __future__ import annotations

import io
import json

import pytest

import deepseek_recipe as recipe
from deepseek_recipe import cli

OUTPUT = (
    'Look.</think>Sure.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="a" string="true">x'
    '</｜DSML｜ parameter>\n<｜DSML｜ parameter name="a" string="true">y</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n'
    "</｜DSML｜ calls>\nDone."
)
ANSWER = ['reasoning "Look."', 'text "Sure."', 'call "f" {"a": "x"} (dropped {"a": "y"})', 'text "\\nDone."']


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Gives the command the output on standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(OUTPUT))
    return monkeypatch


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints."""
    assert cli.main(["decode", "--stage", "reasoning_start", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("chunk", [[], ["--chunk", "1"], ["--chunk", "7"]])
def test_the_answer_part_by_part(capsys: pytest.CaptureFixture[str], chunk: list[str]) -> None:
    assert printed(capsys, *chunk).splitlines() == [*ANSWER, "finish tool_calls"]


def test_ids_with_any_separators(capsys: pytest.CaptureFixture[str], given: pytest.MonkeyPatch) -> None:
    ids = recipe.Tokenizer.built_in("v4").encode(OUTPUT, special=True)
    for text in (json.dumps(ids), " ".join(map(str, ids)), "\n".join(map(str, ids))):
        given.setattr("sys.stdin", io.StringIO(text))
        assert printed(capsys, "--ids", "--version", "v4").splitlines() == [*ANSWER, "finish tool_calls"]


@pytest.mark.usefixtures("given")
def test_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    events = [json.loads(line) for line in printed(capsys, "--events").splitlines()]
    assert events[0] == {"event": "reasoning", "text": "Look."}
    assert events[-1] == {"event": "finish", "reason": "tool_calls", "stop_sequence": None}
    dropped = {"event": "call_parameter_dropped", "index": 0, "name": "a", "value": "y"}
    assert dropped in events and {"event": "call_end", "index": 0, "complete": True} in events


@pytest.mark.usefixtures("given")
def test_the_body_and_the_stream_of_a_protocol(capsys: pytest.CaptureFixture[str], given: pytest.MonkeyPatch) -> None:
    message = json.loads(printed(capsys, "--json", "--protocol", "messages"))
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "text"]
    given.setattr("sys.stdin", io.StringIO(OUTPUT))
    assert printed(capsys, "--stream").endswith("data: [DONE]\n\n")


def test_settings_of_the_answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for text, arguments, answer in [
        ("Hi ### more", ["--stop", "###"], ['text "Hi "', 'finish stop at "###"']),
        ("cut", ["--finish", "length"], ['text "cut"', "finish length"]),
        ('So: {"a": 1}', ["--json-mode"], ['text "{\\"a\\": 1}"', "finish stop"]),
        ('<｜DSML｜ invoke name="g">\n</｜DSML｜ invoke>', ["--tools", "g"], ['call "g" {}', "finish tool_calls"]),
        ('<｜DSML｜ invoke name="g">', ["--tools", ""], ['text "<｜DSML｜ invoke name=\\"g\\">"', "finish stop"]),
        (
            '<｜DSML｜ invoke name="g">\n<｜DSML｜ parameter name="a" string="true">x',
            ["--finish", "none"],
            ['call "g" {"a": "x (incomplete)', "finish length"],
        ),
    ]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert cli.main(["decode", *arguments]) == 0
        assert capsys.readouterr().out.splitlines() == answer


@pytest.mark.parametrize(
    ("text", "arguments", "fault"),
    [("12 x", ["--ids"], "--ids takes token ids, not 'x'"), ("x", ["--chunk", "-1"], "--chunk takes a number above 0")],
)
def test_a_wrong_call_is_explained(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    arguments: list[str],
    fault: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert cli.main(["decode", *arguments]) == 2
    assert fault in capsys.readouterr().err


def test_an_unknown_id_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("99999999"))
    assert cli.main(["decode", "--ids"]) == 1
    assert "refused" in capsys.readouterr().err
