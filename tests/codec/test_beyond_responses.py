"""Responses requests that the reference refuses or half ignores: accepted, and meaning what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

import deepseek_recipe as recipe

FUNCTIONS: list[dict[str, Any]] = [
    {"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("f", "g")
]
LARK = 'start: WORD+\n%import common.WORD\n%ignore " "'


@pytest.fixture(params=["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])
def model(request: pytest.FixtureRequest) -> str:
    """Each version's model."""
    name: str = request.param
    return name


def encode(model: str, input: Any = "q", lookup: Any = None, **members: Any) -> recipe.Encoded:
    """Encodes a request."""
    return recipe.encode({"model": model, "input": input, **members}, "responses", lookup=lookup)


def same_ids(left: recipe.Encoded, right: recipe.Encoded) -> bool:
    """Whether two requests are the same to the model."""
    return left.token_ids.tolist() == right.token_ids.tolist() and left.special_ranges == right.special_ranges


def as_function(description: str | None) -> dict[str, Any]:
    """The function that stands for a custom tool."""
    text = {"type": "string", "description": "The entire input of the tool, as plain text."}
    parameters = {"type": "object", "additionalProperties": False, "properties": {"input": text}, "required": ["input"]}
    return {"type": "function", "name": "shell", "description": description, "parameters": parameters}


@pytest.mark.parametrize(
    ("members", "description"),
    [
        ({}, None),
        ({"description": "Runs.", "format": {"type": "text"}}, "Runs."),
        ({"description": None, "format": None}, None),
        (
            {"description": "Runs.", "format": {"type": "grammar", "syntax": "lark", "definition": LARK}},
            f"Runs.\n\nThe input must match this Lark grammar:\n{LARK}",
        ),
        (
            {"format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}},
            "The input must match this regular expression:\n[a-z]+",
        ),
    ],
)
def test_custom_tools_are_functions_of_one_text(model: str, members: dict[str, Any], description: str | None) -> None:
    custom = encode(model, tools=[{"type": "custom", "name": "shell", **members}])
    assert same_ids(custom, encode(model, tools=[as_function(description)]))
    assert custom.custom_tools == ["shell"]
    assert custom.constraint is not None and custom.constraint.text is not None
    (declared,) = json.loads(custom.constraint.text)
    schema = declared["function"]["parameters"]["properties"]["input"]
    grammar = (members.get("format") or {}).get("definition")
    assert schema.get("x-grammar", {}).get("definition") == grammar


def test_calls_of_custom_tools_come_back_as_text(model: str) -> None:
    encoded = encode(model, tools=[{"type": "custom", "name": "shell"}], reasoning={"effort": "none"})
    names = ("tool_calls", "invoke", "parameter") if "V4-Pro" in model else (" calls", " invoke", " parameter")
    block, invoke, parameter = (f"｜DSML｜{name}" for name in names)
    decoder = encoded.decoder(id="resp_1", created=0, seed=b"s")
    decoder.start()
    decoder.push_text(
        f'\n\n<{block}>\n<{invoke} name="shell">\n<{parameter} name="input" string="true">ls "-l"\n</{parameter}>\n'
        f"</{invoke}>\n</{block}>"
    )
    decoder.finish("stop")
    (call,) = json.loads(decoder.response())["output"]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "shell", 'ls "-l"\n')
    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
    again = encode(model, [call, result], tools=[{"type": "custom", "name": "shell"}])
    assert 'ls "-l"\n</' in again.prompt


@pytest.mark.parametrize(
    ("tool", "code", "param"),
    [
        ({"name": "a b"}, "invalid_name", "tools[0].name"),
        ({"name": "c", "format": {"type": "json"}}, "unknown_value", "tools[0].format.type"),
        (
            {"name": "c", "format": {"type": "grammar", "syntax": "lark"}},
            "missing_field",
            "tools[0].format.definition",
        ),
        (
            {"name": "c", "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}},
            "unknown_value",
            "tools[0].format.syntax",
        ),
    ],
)
def test_faults_of_custom_tools(model: str, tool: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(recipe.RequestError) as caught:
        encode(model, tools=[{"type": "custom", **tool}])
    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize("effort", ["high", "none"])
@pytest.mark.parametrize(("mode", "kind"), [("auto", "tool_call"), ("required", "tool_call_required")])
def test_allowed_tools_leave_the_prompt_alone(model: str, effort: str, mode: str, kind: str) -> None:
    members: dict[str, Any] = {"tools": [*FUNCTIONS, {"type": "custom", "name": "c"}], "reasoning": {"effort": effort}}
    named = [{"type": "function", "name": "g"}, {"type": "custom", "name": "c"}, {"type": "mcp", "server_label": "s"}]
    some = encode(model, tool_choice={"type": "allowed_tools", "mode": mode, "tools": named}, **members)
    assert same_ids(some, encode(model, **members))
    assert some.constraint is not None and some.constraint.kind == kind
    assert some.constraint.allowed_tools == ["g", "c"] == some.parsing.declared_tools
    assert some.warnings == ["tool_choice.tools[2]: the tool mcp was left out"]


def test_allowed_tools_must_be_declared(model: str) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "h"}]}
    with pytest.raises(recipe.RequestError, match="names the tool h, which is not declared") as caught:
        encode(model, tools=FUNCTIONS, tool_choice=choice)
    assert caught.value.param == "tool_choice.tools[0].name"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "g"}])
def test_a_call_may_be_required_while_thinking(model: str, choice: Any) -> None:
    forced = encode(model, tools=FUNCTIONS, tool_choice=choice)
    assert same_ids(forced, encode(model, tools=FUNCTIONS if choice == "required" else FUNCTIONS[1:]))
    assert forced.constraint is not None and forced.constraint.kind == "tool_call_required"


def test_parallel_calls_are_a_matter_of_the_constraint(model: str) -> None:
    single = encode(model, tools=FUNCTIONS, parallel_tool_calls=False)
    assert single.constraint is not None and single.constraint.single_call
    assert same_ids(single, encode(model, tools=FUNCTIONS))


ASKED = {"role": "user", "content": "What is it?"}
OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "A cat.", "annotations": []}],
    },
]
STORE: dict[str, Any] = {
    "resp_list": [ASKED, *OUTPUT],
    "resp_text": json.dumps({"id": "resp_text", "input": "What is it?", "output": OUTPUT}),
    "resp_bytes": json.dumps({"input": [ASKED], "output": OUTPUT}).encode(),
    "resp_first": {"input": [ASKED], "output": [], "previous_response_id": None},
    "resp_second": {"output": OUTPUT, "previous_response_id": "resp_first"},
    "resp_loop": {"input": [ASKED], "output": OUTPUT, "previous_response_id": "resp_loop"},
    "msg_1": OUTPUT[1],
}
ids_of_responses = [name for name in STORE if name.startswith("resp") and name != "resp_first"]


@pytest.mark.parametrize("id", ids_of_responses)
def test_a_request_goes_on_from_a_stored_response(model: str, id: str) -> None:
    whole = encode(model, [ASKED, *OUTPUT, {"role": "user", "content": "Why?"}], tools=FUNCTIONS)
    for input in ("Why?", [{"role": "user", "content": "Why?"}]):
        assert same_ids(encode(model, input, STORE.get, previous_response_id=id, tools=FUNCTIONS), whole)
    body = {"model": model, "input": "Why?", "previous_response_id": id, "tools": FUNCTIONS}
    assert recipe.count_tokens(body, "responses", lookup=STORE.get) == len(whole.token_ids)


def test_instructions_come_first(model: str) -> None:
    going_on = encode(model, "Why?", STORE.get, previous_response_id="resp_list", instructions="Be brief.")
    said = [{"role": "system", "content": "Be brief."}, ASKED, *OUTPUT, {"role": "user", "content": "Why?"}]
    assert same_ids(going_on, encode(model, said))


def test_results_may_answer_stored_calls(model: str) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "r"}
    store = {"resp_1": {"input": [ASKED], "output": [call]}}
    going_on = encode(model, [result], store.get, previous_response_id="resp_1", tools=FUNCTIONS)
    assert same_ids(going_on, encode(model, [ASKED, call, result], tools=FUNCTIONS))


def test_stored_items_are_put_where_they_are_named(model: str) -> None:
    why = {"role": "user", "content": "Why?"}
    stored: list[tuple[str, list[Any]]] = [("msg_1", OUTPUT[1:]), ("resp_list", [ASKED, *OUTPUT])]
    for reference, items in stored:
        named = encode(model, [{"type": "item_reference", "id": reference}, why], STORE.get)
        assert same_ids(named, encode(model, [*items, why]))
        assert named.warnings == []


def test_what_is_not_stored_is_not_found(model: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"input": "q", "previous_response_id": "resp_9"}, "previous_response_id"),
        ({"input": [ASKED, {"type": "item_reference", "id": "resp_9"}]}, "input[1].id"),
    ]
    for members, param in cases:
        with pytest.raises(recipe.RequestError, match="nothing is stored under resp_9") as caught:
            encode(model, lookup=STORE.get, **members)
        assert (caught.value.status_code, caught.value.code, caught.value.param) == (404, "not_stored", param)


def test_without_a_store_there_is_nothing_to_go_on_from(model: str) -> None:
    with pytest.raises(recipe.RequestError, match=r"previous_response_id: .*resp_9.* is not supported") as caught:
        encode(model, previous_response_id="resp_9")
    assert caught.value.status_code == 400
    left_out = encode(model, [ASKED, {"type": "item_reference", "id": "x"}])
    assert left_out.warnings == ["input[1]: the item item_reference was left out"]


def test_faults_of_the_store_come_out_as_they_are(model: str) -> None:
    def broken(id: str) -> Any:
        raise ConnectionError(f"no way to {id}")

    with pytest.raises(ConnectionError, match="no way to resp_1"):
        encode(model, "q", broken, previous_response_id="resp_1")
    with pytest.raises(TypeError, match="body must be bytes, str or dict, not int"):
        encode(model, "q", lambda id: 7, previous_response_id="resp_1")
    with pytest.raises(recipe.RequestError, match="neither a response nor a list") as caught:
        encode(model, "q", lambda id: "7", previous_response_id="resp_1")
    assert caught.value.status_code == 500


def test_nothing_is_left_out_in_silence(model: str) -> None:
    items = [
        {"type": "mcp_call", "id": "m"},
        {"type": "web_search_call", "id": "w"},
        {"type": "tool_search_call", "call_id": "t", "arguments": {}},
        {"type": "tool_search_output", "call_id": "t", "tools": []},
        ASKED,
    ]
    tools = [{"type": "file_search"}, {"type": "web_search"}, {"type": "local_shell"}, *FUNCTIONS]
    places = [warning.split(":")[0] for warning in encode(model, items, tools=tools).warnings]
    searches = ["input[2]", "input[3]"] if "V4-Pro" in model else []
    assert places == ["tools[0]", "tools[1]", "tools[2]", "input[0]", "input[1]", *searches]
