"""Recorded outputs of the codec, and the list of those that differ on purpose."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.vectors import decode_rows, run

HERE = Path(__file__).parent
ROWS = list(run.rows(HERE / "decode.jsonl.gz"))
LISTED = run.deviations(HERE / "deviations.toml")


def test_every_row_equals_the_file_or_its_listed_expectation() -> None:
    differences = {row["id"]: decode_rows.check(row, LISTED.get(row["id"])) for row in ROWS}
    assert {id: found for id, found in differences.items() if found} == {}


def test_listed_rows_exist_and_name_a_class_that_has_a_reason() -> None:
    classes = tomllib.loads((HERE / "deviations.toml").read_text(encoding="utf-8"))["classes"]
    known = {row["id"] for row in (*ROWS, *run.rows(HERE / "encode.jsonl.gz"))}
    assert set(LISTED) <= known
    assert {row["class"] for row in LISTED.values()} == set(classes)


def test_a_listed_row_that_equals_the_file_fails() -> None:
    row = next(row for row in ROWS if row["id"] not in LISTED)
    assert decode_rows.check(row, None) is None
    found = decode_rows.check(row, {"class": "any", "stream": "{}", "response": "{}"})
    assert found == "is listed as a deviation but equals the file"


def test_an_unlisted_difference_is_named_by_its_place() -> None:
    row = json.loads(json.dumps(next(row for row in ROWS if row["id"] == "pub-0001/chat")))
    row["response"]["choices"][0]["message"]["content"] = "Rome."
    found = decode_rows.check(row, None)
    assert found == ".response.choices.0.message.content: expected 'Rome.', found 'Paris.'"


@pytest.mark.parametrize(("expected", "found"), [(1, 1.0), (10**17, float(10**17)), (0, -0.0)])
def test_numbers_compare_as_doubles(expected: float, found: float) -> None:
    assert decode_rows.difference([expected], [found]) is None


@pytest.mark.parametrize(("expected", "found"), [(1, True), (0, None), ("1", 1), (1, 2), ([], {})])
def test_other_values_compare_exactly(expected: object, found: object) -> None:
    assert decode_rows.difference({"a": expected}, {"a": found}) is not None
