"""Which requests become which grammar, and when it wakes."""

from typing import Any

import pytest

import deepseek_recipe as recipe
from tests.structured.grammar_engine import DSML, accepts
from tests.vectors import encode_rows, run
from tests.vectors.test_encode_vectors import VECTORS

MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]
THINKING_END = 128_822
USER = {"role": "user", "content": "json, please"}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WRONG = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}


def chat(model: str = MODELS[0], *, thinks: bool = False, **members: Any) -> recipe.Encoded:
    thinking = {"type": "enabled" if thinks else "disabled"}
    return recipe.encode({"model": model, "messages": [USER], "thinking": thinking, **members}, "chat_completions")


def messages(model: str = MODELS[0], **members: Any) -> recipe.Encoded:
    return recipe.encode({"model": model, "messages": [USER], "thinking": {"type": "disabled"}, **members}, "messages")


def responses(model: str = MODELS[0], **members: Any) -> recipe.Encoded:
    return recipe.encode({"model": model, "input": "json", "reasoning": {"effort": "none"}, **members}, "responses")


def function(name: str = "f", parameters: Any = CITY, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **members}}


def grammar(encoded: recipe.Encoded) -> recipe.Grammar:
    made = encoded.grammar
    assert made is not None
    return made


def block(model: str, *calls: str) -> str:
    space, word = ("", "tool_calls") if model == MODELS[0] else (" ", "calls")
    return f"<｜DSML｜{space}{word}>\n{''.join(calls)}</｜DSML｜{space}{word}>"


def call(model: str, name: str, **parameters: str) -> str:
    """A call whose parameters are all strings."""
    space = "" if model == MODELS[0] else " "
    tags = [
        f'<｜DSML｜{space}parameter name="{key}" string="true">{value}</｜DSML｜{space}parameter>\n'
        for key, value in parameters.items()
    ]
    nothing = "" if space == "" else "\n"
    return f'<｜DSML｜{space}invoke name="{name}">\n{"".join(tags) or nothing}</｜DSML｜{space}invoke>\n'


def after_mark(text: str) -> str:
    return text.split("｜DSML｜", 1)[1]


@pytest.mark.parametrize("model", MODELS)
def test_a_free_answer_has_no_grammar(model: str) -> None:
    assert chat(model).grammar is None
    assert chat(model, tools=[function()], tool_choice="none").grammar is None


@pytest.mark.parametrize("model", MODELS)
def test_tools_wake_at_the_mark(model: str) -> None:
    made = grammar(chat(model, tools=[function(), function("g", {"type": "object"})]))
    assert (made.trigger, made.start_after, made.binding) == (DSML, None, False)
    assert accepts(made.text, after_mark(block(model, call(model, "f", city="Oslo"), call(model, "g"))))
    assert not accepts(made.text, after_mark(block(model, call(model, "f"))))
    assert not accepts(made.text, after_mark(block(model, call(model, "h", city="Oslo"))))
    assert not accepts(made.text, after_mark(block(model)))
    assert not accepts(made.text, after_mark(block(model, call(model, "f", city="Oslo"))) + "\n")


@pytest.mark.parametrize("model", MODELS)
def test_a_required_call_begins_the_answer(model: str) -> None:
    calls = call(model, "f", city="Oslo")
    shown = grammar(chat(model, tools=[function()], tool_choice="required"))
    assert (shown.trigger, shown.binding) == (None, True)
    # The prompt has opened the block already.
    assert accepts(shown.text, block(model, calls).split(">\n", 1)[1])
    unseen = grammar(messages(model, tools=[{"name": "f", "input_schema": CITY}], tool_choice={"type": "any"}))
    assert (unseen.trigger, unseen.binding) == (None, True)
    assert accepts(unseen.text, "\n\n" + block(model, calls))
    assert not accepts(unseen.text, "Well.\n\n" + block(model, calls))


@pytest.mark.parametrize("model", MODELS)
def test_after_thinking(model: str) -> None:
    for members in ({"tools": [function()], "tool_choice": "required"}, {"response_format": {"type": "json_object"}}):
        made = grammar(chat(model, thinks=True, **members))
        assert (made.start_after, made.trigger, made.binding) == (THINKING_END, None, True)
    made = grammar(chat(model, thinks=True, tools=[function()]))
    assert (made.start_after, made.trigger, made.binding) == (THINKING_END, DSML, False)


@pytest.mark.parametrize("model", MODELS)
def test_named_allowed_and_single_calls(model: str) -> None:
    tools = [function(), function("g")]
    f, g = (call(model, name, city="Oslo") for name in "fg")
    named = grammar(chat(model, tools=tools, tool_choice={"type": "function", "function": {"name": "g"}}))
    assert accepts(named.text, block(model, g).split(">\n", 1)[1])
    assert not accepts(named.text, block(model, f).split(">\n", 1)[1])
    chosen = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}
    allowed = grammar(chat(model, tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": chosen}))
    assert accepts(allowed.text, after_mark(block(model, g, g)))
    assert not accepts(allowed.text, after_mark(block(model, f)))
    single = grammar(chat(model, tools=tools, parallel_tool_calls=False))
    assert accepts(single.text, after_mark(block(model, f)))
    assert not accepts(single.text, after_mark(block(model, f, g)))
    none = grammar(
        chat(model, tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}})
    )
    assert (none.trigger, none.binding) == (None, False)
    assert accepts(none.text, "Well.") and not accepts(none.text, "\n\n" + block(model, f))


def test_a_deferred_tool_can_be_called_once_it_was_found() -> None:
    tools = [{"name": "f", "input_schema": CITY}, {"name": "g", "input_schema": CITY, "defer_loading": True}]
    text = after_mark(block(MODELS[1], call(MODELS[1], "g", city="Oslo")))
    assert not accepts(grammar(messages(MODELS[1], tools=tools)).text, text)
    found = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "g"}]}
    turns = [
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"city": "x"}}]},
        {"role": "user", "content": [found]},
    ]
    assert accepts(grammar(messages(MODELS[1], tools=tools, messages=turns)).text, text)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "enum": ["a", "b\n"]}, ["a", "b\n"], ["c", "", "a\n"]),
        ({"type": "string", "pattern": "^<[/]", "maxLength": 4}, ["</", "</x>"], ["<", "</xyz", "x</"]),
        ({"type": "string", "minLength": 2}, ["é日", "\n\n"], ["é", ""]),
        ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-2-1"]),
        ({"const": "x"}, ["x"], ["y"]),
        ({"type": "string"}, ["", "\n", "</div>\n", '{"a": 1}', "｜", "</", "\u0000\u007f"], []),
    ],
)
def test_strings_are_held_to_their_schema_as_they_stand(
    model: str, schema: Any, good: list[str], bad: list[str]
) -> None:
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    made = grammar(chat(model, tools=[function("f", parameters)]))
    for value in good:
        assert accepts(made.text, after_mark(block(model, call(model, "f", a=value)))), value
    for value in bad:
        assert not accepts(made.text, after_mark(block(model, call(model, "f", a=value)))), value


@pytest.mark.parametrize("model", MODELS)
def test_other_values_are_json(model: str) -> None:
    types = {"n": {"type": ["integer", "null"], "minimum": 3}, "l": {"type": "array", "items": {"type": "string"}}}
    made = grammar(chat(model, tools=[function("f", {"type": "object", "properties": types})]))

    def tag(name: str, value: str, is_string: str = "false") -> str:
        space = "" if model == MODELS[0] else " "
        return f'<｜DSML｜{space}parameter name="{name}" string="{is_string}">{value}</｜DSML｜{space}parameter>\n'

    def accepted(*tags: str) -> bool:
        text = block(model, call(model, "f", a="x"))
        return accepts(made.text, after_mark(text.replace(tag("a", "x", "true"), "".join(tags))))

    assert accepted(tag("n", "3"), tag("l", '["a", "b\\n"]'))
    assert accepted(tag("n", "null")) and accepted(tag("l", "[]"))
    # Other parameters are open here, and may be anything.
    assert accepted(tag("other", "1.5e-7")) and accepted(tag("other", "1", "true"))
    for wrong in (
        [tag("n", "2")],
        [tag("n", "03")],
        [tag("n", "3", "true")],
        [tag("l", '["a","b"]')],
        [tag("l", "[ ]")],
        [tag("l", "[]"), tag("n", "3")],
        [tag("n", "3"), tag("n", "4")],
        [tag("other", '"1"')],
        [tag("other", "1e999")],
    ):
        assert not accepted(*wrong), wrong


def test_a_loose_tool_is_never_refused() -> None:
    for parameters in (
        WRONG,
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere/x"}}, "$defs": {"nowhere": {}}, "not": {}},
        {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
        {"type": "object", "allOf": [{"oneOf": [{}, {"minProperties": 3}]}]},
    ):
        try:
            encoded = chat(tools=[function("f", parameters)])
        except recipe.RequestError as error:
            assert error.code == "invalid_schema"
            continue
        text = after_mark(block(MODELS[0], call(MODELS[0], "f", anything="x")))
        assert accepts(grammar(encoded).text, text), parameters


def test_a_strict_tool_is_refused_with_the_path_of_what_cannot_be_enforced() -> None:
    encoded = messages(
        tools=[{"name": "g", "input_schema": CITY}, {"name": "f", "input_schema": WRONG, "strict": True}]
    )
    for _ in range(2):
        with pytest.raises(recipe.RequestError) as caught:
            _ = encoded.grammar
        assert caught.value.code == "unsupported_schema"
        assert caught.value.param == "tools[1].input_schema.properties.a.uniqueItems"
        assert b'"type":"error"' in caught.value.body
    strict = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}}
    with pytest.raises(recipe.RequestError) as caught:
        _ = responses(tools=[{"type": "function", "name": "f", "parameters": strict, "strict": True}]).grammar
    assert caught.value.param == "tools[0].parameters.properties.a.pattern"


def test_openai_strict_closes_objects_and_requires_their_properties() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}}
    strict = grammar(chat(tools=[function("f", parameters, strict=True)]))
    loose = grammar(chat(tools=[function("f", parameters)]))
    for values, is_strict in (
        ({"a": "x", "b": "y"}, True),
        ({"a": "x"}, False),
        ({"a": "x", "b": "y", "c": "z"}, False),
    ):
        text = after_mark(block(MODELS[0], call(MODELS[0], "f", **values)))
        assert accepts(strict.text, text) is is_strict
        assert accepts(loose.text, text)


@pytest.mark.parametrize("model", MODELS)
def test_a_format_beside_tools_leaves_the_choice(model: str) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}
    made = grammar(chat(model, tools=[function()], response_format=schema))
    assert (made.trigger, made.binding) == (None, True)
    assert accepts(made.text, '{"city": "Oslo"}')
    assert accepts(made.text, "\n\n" + block(model, call(model, "f", city="Oslo")))
    assert not accepts(made.text, '{"city": "Oslo"}\n\n' + block(model, call(model, "f", city="Oslo")))


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        (
            {"json": CITY},
            ['{"city": "Oslo\\n"}'],
            ['{"city":"Oslo"}', '{ "city": "Oslo"}', '{"city": "\\u006f"}', "{}"],
        ),
        ({"json": '{"type": "integer"}'}, ["0", "-12"], ["-0", "1.0", ""]),
        ({"regex": "a|b+$"}, ["a", "bb"], ["ab", ""]),
        ({"grammar": 'start: "a" b\nb: /[0-9]+/'}, ["a1"], ["a", "b"]),
        ({"choice": ["yes", "no", ""]}, ["yes", "no", ""], ["maybe"]),
        ({"json_object": True}, ['{"a": [1, {}]}', "{}"], ["[]", "1"]),
    ],
)
def test_structured_outputs(wanted: dict[str, Any], good: list[str], bad: list[str]) -> None:
    encoded = chat(structured_outputs=wanted)
    assert encoded.token_ids.tolist() == chat().token_ids.tolist()
    made = grammar(encoded)
    assert made.binding
    for text in good:
        assert accepts(made.text, text), text
    for text in bad:
        assert not accepts(made.text, text), text


@pytest.mark.parametrize(
    ("members", "code", "param"),
    [
        ({"structured_outputs": {}}, "exactly_one", "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "exactly_one", "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "exactly_one", "structured_outputs"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "text"}}, "exactly_one", None),
        ({"structured_outputs": {"choice": []}}, "empty_array", "structured_outputs.choice"),
        ({"structured_outputs": {"choice": [1]}}, "invalid_type", "structured_outputs.choice[0]"),
        ({"structured_outputs": {"json": "{"}}, "invalid_schema", "structured_outputs.json"),
        ({"structured_outputs": {"json": {"type": "x"}}}, "invalid_schema", "structured_outputs.json"),
        ({"structured_outputs": {"json": {"not": {}}}}, "unsupported_schema", "structured_outputs.json.not"),
        ({"structured_outputs": {"regex": "("}}, "invalid_regex", "structured_outputs.regex"),
        ({"response_format": {"type": "regex", "regex": r"\bx"}}, "invalid_regex", "response_format.regex"),
        ({"structured_outputs": {"grammar": 'start: "a" } x: "b"'}}, "invalid_grammar", "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": "start: <[128825]>"}}, "invalid_grammar", "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": "start: @other"}}, "invalid_grammar", "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": "start: %lark { a }"}}, "invalid_grammar", "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": '"' * 70_000}}, "invalid_grammar", "structured_outputs.grammar"),
    ],
)
def test_a_format_that_cannot_be_honoured(members: dict[str, Any], code: str, param: str | None) -> None:
    with pytest.raises(recipe.RequestError) as caught:
        _ = chat(**members).grammar
    assert (caught.value.code, caught.value.param) == (code, param)


def test_the_form_of_a_continued_answer_is_not_known() -> None:
    turns = [USER, {"role": "assistant", "content": "{", "prefix": True}]
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}
    with pytest.raises(recipe.RequestError) as caught:
        _ = chat(messages=turns, response_format=schema).grammar
    assert (caught.value.code, caught.value.param) == ("prefix_conflict", "response_format.json_schema.schema")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        (None, ["", "any\n</text>"], []),
        ({"type": "text"}, ["anything"], []),
        ({"type": "grammar", "syntax": "regex", "definition": "^[a-z<]+$"}, ["a<b", "<"], ["", "A"]),
        ({"type": "grammar", "syntax": "lark", "definition": 'start: "x" /[0-9]+/'}, ["x1"], ["x", "1"]),
    ],
)
def test_custom_tools(model: str, wanted: Any, good: list[str], bad: list[str]) -> None:
    tool = {"type": "custom", "name": "run", "format": wanted} if wanted else {"type": "custom", "name": "run"}
    made = grammar(responses(model, tools=[tool]))
    assert made.trigger == DSML
    for text in good:
        assert accepts(made.text, after_mark(block(model, call(model, "run", input=text)))), text
    for text in bad:
        assert not accepts(made.text, after_mark(block(model, call(model, "run", input=text)))), text


def test_a_custom_tool_with_a_broken_grammar_is_refused() -> None:
    tool = {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "regex", "definition": "("}}
    with pytest.raises(recipe.RequestError) as caught:
        _ = responses(tools=[tool]).grammar
    assert (caught.value.code, caught.value.param) == ("invalid_regex", "tools[0].format.definition")


def test_budgets_of_thinking() -> None:
    body = {"model": MODELS[0], "input": "q", "max_thinking_tokens": 7}
    assert recipe.encode(body, "responses").thinking_budget == 7
    assert recipe.encode({**body, "reasoning": {"effort": "none"}}, "responses").thinking_budget is None
    assert chat(thinks=True, max_thinking_tokens=5).thinking_budget == 5
    assert chat(thinks=True).thinking_budget is None


def test_a_grammar_is_made_once() -> None:
    encoded = chat(tools=[function()])
    assert encoded.grammar is encoded.grammar


def test_a_grammar_that_is_remembered_is_the_one_that_would_be_made() -> None:
    """All requests of the encode vectors, with options that remember the grammars before and with ones that do not."""
    remembering, compared = recipe.Options(models=encode_rows.MODELS), 0
    for row in run.rows(VECTORS):
        if row["protocol"] in encode_rows.PROTOCOLS and "request" in row:
            forgetting = recipe.Options(models=encode_rows.MODELS)
            expected = outcome(row, forgetting)
            assert outcome(row, remembering) == expected, row["id"]
            compared += isinstance(expected, tuple)
    assert compared > 100


def outcome(row: dict[str, Any], options: recipe.Options) -> Any:
    """The grammar of a row's request, or why there is none."""
    try:
        made = recipe.encode(row["request"], encode_rows.PROTOCOLS[row["protocol"]], options=options).grammar
    except recipe.RequestError as error:
        return str(error)
    return made and (made.text, made.start_after, made.trigger, made.binding)
