"""Field reports as cases, and what the runner of cases refuses to pass over."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe as recipe
from tests.vectors import case_output, case_rows, run

ROWS = {row["id"]: row for row in run.rows(Path(__file__).parent / "cases.jsonl")}
DECODE = [id for id, row in ROWS.items() if row["kind"] == "decode"]
ENCODE = [id for id, row in ROWS.items() if row["kind"] == "encode"]


@pytest.mark.parametrize("id", DECODE)
def test_decode_case(id: str) -> None:
    assert case_rows.check(ROWS[id]) is None


@pytest.mark.parametrize("id", [id for id in DECODE if "output" in ROWS[id]["input"]])
def test_decode_case_by_ids(id: str) -> None:
    """Where the marks are control tokens, ids say what the text says."""
    given = ROWS[id]["input"]
    case = case_output.decoding(given)
    ids = case.tokenizer.encode(given["output"], special=True)
    for chunks in ([ids], [[id] for id in ids]):
        assert case.answer(chunks).visible == case.answer([given["output"]]).visible


@pytest.mark.parametrize("id", ENCODE)
def test_encode_case(id: str) -> None:
    assert case_rows.check(ROWS[id]) is None


# One is about seconds, which a busy machine does not keep: `run.py cases --kinds serve` judges it. The other needs
# speculation, which the engine does not have yet.
WAITING = {"srv-tokenise-offloop", "eng-spec-stop"}
MOVING = [id for id, row in ROWS.items() if row["kind"] in ("serve", "engine") and id not in WAITING]


@pytest.mark.parametrize("id", MOVING)
@pytest.mark.timeout(300)
def test_serve_and_engine_case(id: str) -> None:
    assert case_rows.check(ROWS[id]) is None


def test_a_case_that_nothing_carries_out_fails() -> None:
    for row in (ROWS["srv-disconnect-nonstream"], ROWS["eng-abort-prefill"]):
        found = case_rows.check({**row, "id": "unknown"})
        assert found is not None and "nothing carries" in found


def test_dec_long_arg_stream() -> None:
    """A long string argument arrives while it is written, at a cost that grows with its length alone."""
    seconds = {length: min(long_argument(length) for _ in range(3)) for length in (1 << 15, 1 << 17)}
    assert seconds[1 << 17] < 12 * seconds[1 << 15] + 0.05


def long_argument(length: int) -> float:
    """Decodes a call whose one argument has `length` characters, in pieces of 32; returns the seconds that it took."""
    head = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">'
    tail = "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    parsing = recipe.Parsing(parse_tool_calls=True, declared_tools=["f"])
    decoder = recipe.Decoder("chat_completions", parsing, id="a", model="m", created=0, seed=b"s")
    text = head + "A" * length
    started = time.perf_counter()
    deltas = [
        delta
        for place in range(0, len(text), 32)
        if decoder.push_text(text[place : place + 32])
        for delta in decoder.events()
        if isinstance(delta, recipe.Event.CallArguments)
    ]
    decoder.push_text(tail)
    decoder.finish("stop")
    seconds = time.perf_counter() - started
    assert len(deltas) > 10
    call = json.loads(decoder.response())["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"a": "A" * length}
    return seconds


@pytest.mark.parametrize(
    ("member", "key"),
    [("input", "temperature"), ("expect", "note"), ("value", "colour")],
)
def test_a_case_with_an_unknown_key_fails(member: str, key: str) -> None:
    row: dict[str, Any] = json.loads(json.dumps(ROWS["dec-split-opener"]))
    (row["expect"]["value"] if member == "value" else row[member])[key] = 1
    found = case_rows.check(row)
    assert found is not None and key in found


def test_a_wrong_answer_is_reported() -> None:
    row: dict[str, Any] = json.loads(json.dumps(ROWS["dec-array-param"]))
    row["expect"]["value"]["calls"][0][1]["a"] = []
    found = case_rows.check(row)
    assert found is not None and found.startswith("expected [['f', {'a': []}]]")


def test_cases_of_other_kinds_are_not_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(__file__).parent / "cases.jsonl"
    monkeypatch.setattr("sys.argv", ["run.py", "cases", str(path), "--kinds", "decode"])
    assert run.main() == 0
    printed = capsys.readouterr().out
    assert "srv-count-tokens: not judged" in printed and "enc-args-null: not judged" in printed
    assert printed.endswith(f"{len(DECODE)} passed, 0 failed\n")
