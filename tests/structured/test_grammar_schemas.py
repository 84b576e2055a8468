"""JSON Schema as it is enforced: the published suite, and schemas that are too much."""

import json
import time
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe
from tests.structured import schema_suite


def test_nothing_of_the_suite_is_wrong() -> None:
    outcomes = schema_suite.run()
    assert [fault for outcome in outcomes.values() for fault in outcome.wrong] == []
    assert sum(outcome.supported for outcome in outcomes.values()) >= 164
    # What is narrower than the format that it is held to: leap seconds away from UTC, quoted and literal e-mail
    # addresses, international host names.
    narrower = {name: len(outcome.narrower) for name, outcome in outcomes.items() if outcome.narrower}
    formats = {"time": 4, "date-time": 1, "email": 5, "hostname": 1}
    assert narrower == {f"optional/format/{name}": count for name, count in formats.items()}


@pytest.mark.parametrize(
    ("schema", "instance", "valid"),
    [({"type": "integer"}, "x", True), ({"type": "string"}, "x", False), ({"minimum": 3}, 3, False)],
)
def test_the_suite_finds_what_is_wrong(schema: Any, instance: Any, valid: bool) -> None:
    outcome = schema_suite.Outcome()
    case = {"file": "type", "description": "case", "schema": schema, "tests": [["test", instance, valid]]}
    schema_suite.judge(case, outcome)
    assert len(outcome.wrong) == 1


DECIMALS = st.decimals(-2000, 2000, places=3) | st.integers(-12, 12).map(Decimal)


@settings(max_examples=60, deadline=None)
@given(least=DECIMALS, most=DECIMALS, values=st.lists(DECIMALS, min_size=1, max_size=8), integer=st.booleans())
def test_bounds_of_numbers_are_exact(least: Decimal, most: Decimal, values: list[Decimal], integer: bool) -> None:
    assume(least < most and (not integer or least.to_integral_value(ROUND_CEILING) < most))
    kind = "integer" if integer else "number"
    schema = f'{{"type": "{kind}", "minimum": {least}, "exclusiveMaximum": {most}}}'
    grammar = schema_suite.grammar_of(json.loads(schema))
    for value in [*values, least, most]:
        text = f"{value.normalize():f}"
        is_canonical = text != "-0" and (not integer or "." not in text)
        if is_canonical:
            assert schema_suite.accepts(grammar, text) is (least <= value < most), (schema, text)


def refusal(schema: Any) -> recipe.RequestError:
    with pytest.raises(recipe.RequestError) as caught:
        schema_suite.grammar_of(schema)
    return caught.value


SCHEMA = "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("schema", "path", "said"),
    [
        ({"properties": {"a": {"items": {"uniqueItems": True}}}}, ".properties.a.items.uniqueItems", "not supported"),
        ({"$defs": {"x": {"not": {}}}, "items": {"$ref": "#/$defs/x"}}, ".$defs.x.not", "not supported"),
        ({"oneOf": [{"minimum": 1}, {"type": "integer"}]}, ".oneOf", "exclude each other"),
        ({"anyOf": [{"type": "string", "pattern": "a(?=b)"}]}, ".anyOf[0].pattern", "look-around"),
        ({"type": "string", "pattern": "(a{100}){1000}"}, ".pattern", "at most 10000"),
        ({"type": "string", "format": "iri"}, ".format", "the formats are"),
        ({"type": "string", "maxLength": 1_000_000}, ".maxLength", "at most 16384"),
        ({"type": "array", "minItems": 100_000}, ".minItems", "10000"),
        ({"enum": list(range(10_001))}, ".enum", "at most 10000"),
        ({"type": "number", "multipleOf": 0.1}, ".multipleOf", "integers"),
        ({"minimum": 1e300}, ".minimum", "40 digits"),
        ({"$ref": "#"}, "", "refers to itself"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, ".$defs.a", "itself"),
        ({"enum": []}, "", "no value"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "", "no value"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "", "no value"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", "no value"),
        ({"allOf": [{"anyOf": [{"minimum": i} for i in range(20)]} for _ in range(3)]}, "", "256 alternatives"),
    ],
)
def test_a_schema_that_cannot_be_enforced_is_refused_where_it_stands(schema: Any, path: str, said: str) -> None:
    error = refusal(schema)
    assert error.code == "unsupported_schema"
    assert error.status_code == 400
    assert error.param == SCHEMA + path
    assert said in str(error)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("least", "most"), [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)])
def test_lists_of_few_items_are_as_long_as_they_may_be(first: int, least: int, most: int) -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"const": 1}, "minItems": least, "maxItems": most}
    if first:
        schema["prefixItems"] = [{"const": "x"}] * first
    grammar = schema_suite.grammar_of(schema)
    for length in range(4):
        text = json.dumps((["x"] * first + [1] * 4)[:length])
        assert schema_suite.accepts(grammar, text) == (least <= length <= most), text


def nested(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        nested(24),
        {"enum": [f"a{i}" for i in range(5000)]},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
        {"type": "string", "pattern": "^(a|a)*(a|b)*a(a|b){20}$"},
        {"type": "object", "properties": {f"p{i}": {"type": ["string", "null"]} for i in range(1000)}},
    ],
    ids=["nested", "enum", "recursive", "pattern", "properties"],
)
def test_large_schemas_are_supported(schema: Any) -> None:
    assert schema_suite.accepts(schema_suite.grammar_of(schema), "x") is False


def hostile() -> dict[str, Any]:
    doubling: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(40)
    }
    doubling["d40"] = {"type": "string"}
    every = {f"e{i}": {"$ref": "#"} for i in range(1500)}
    return {
        "deeper than is supported": nested(25),
        "references that double": {"$ref": "#/$defs/d0", "$defs": doubling},
        "all properties recursive": {"type": "object", "properties": every},
        "a chain of references": {
            "$ref": "#/$defs/c0",
            "$defs": {f"c{i}": {"$ref": f"#/$defs/c{i + 1}"} for i in range(100)} | {"c100": {}},
        },
        "too many properties": {"properties": {f"p{i}": {} for i in range(3000)}},
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_schemas_are_refused_and_quickly(name: str) -> None:
    start = time.monotonic()
    assert refusal(hostile()[name]).code == "unsupported_schema"
    # A guard against what grows without bound, not a measurement.
    assert time.monotonic() - start < 20


def test_the_parts_of_a_schema_that_are_never_reached_do_not_matter() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "$defs": {"unused": {"not": {}}},
        "x-note": {"not": 1},
    }
    assert schema_suite.accepts(schema_suite.grammar_of(schema), json.dumps({"a": "x"}))
