"""Chat Completions requests that the reference refuses or half ignores: accepted, and meaning what they mean."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import deepseek_recipe as recipe

MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]
USER = {"role": "user", "content": "q"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"a": {}}}}}
    for name in ("f", "g")
]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """Each version's model."""
    name: str = request.param
    return name


def encode(model: str, *messages: dict[str, Any], **members: Any) -> recipe.Encoded:
    """Encodes a request of one user message, or of other messages, with default options."""
    return recipe.encode({"model": model, "messages": messages or [USER], **members}, "chat_completions")


def same_ids(left: recipe.Encoded, right: recipe.Encoded) -> bool:
    """Whether two requests are the same to the model."""
    return left.token_ids.tolist() == right.token_ids.tolist() and left.special_ranges == right.special_ranges


def test_developer_is_system(model: str) -> None:
    turns = [{"role": role, "content": "Be brief."} for role in ("developer", "system")]
    first, second = (encode(model, turn, USER) for turn in turns)
    assert same_ids(first, second) and "Be brief." in first.prompt
    later = [encode(model, USER, turn, USER) for turn in turns]
    assert same_ids(*later)


def test_the_newer_name_of_the_limit_counts(model: str) -> None:
    assert encode(model, max_completion_tokens=7).sampling.max_tokens == 7
    assert encode(model, max_completion_tokens=7, max_tokens=9).sampling.max_tokens == 7
    assert encode(model, max_completion_tokens=None, max_tokens=9).sampling.max_tokens == 9
    cases: list[tuple[dict[str, Any], str]] = [
        ({"max_completion_tokens": 0, "max_tokens": 9}, "max_completion_tokens"),
        ({"max_completion_tokens": 393217}, "max_completion_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
    ]
    for members, field in cases:
        with pytest.raises(recipe.RequestError, match=f"{field} must be from 1 to 393216") as caught:
            encode(model, **members)
        assert caught.value.param == field


def test_up_to_eight_answers(model: str) -> None:
    assert [encode(model, n=number).choices for number in (1, 2, 8)] == [1, 2, 8]
    for number in (0, 9):
        with pytest.raises(recipe.RequestError, match=f"n must be from 1 to 8, not {number}"):
            encode(model, n=number)


def called(model: str, function: dict[str, Any]) -> recipe.Encoded:
    """A request with a call in its history."""
    call = {"id": "c", "type": "function", "function": {"name": "f", **function}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    return encode(model, USER, turn, {"role": "tool", "tool_call_id": "c", "content": "r"}, tools=TOOLS)


@pytest.mark.parametrize("function", [{"arguments": ""}, {"arguments": None}, {}, {"arguments": {}}])
def test_no_arguments_are_no_arguments(model: str, function: dict[str, Any]) -> None:
    assert same_ids(called(model, function), called(model, {"arguments": "{}"}))


def test_arguments_may_be_the_object(model: str) -> None:
    as_object = called(model, {"arguments": {"a": "x", "b": [1.0, {"c": None}], "é": 12345678901234567890}})
    as_text = called(model, {"arguments": '{"a": "x", "b": [1.0, {"c": null}], "é": 12345678901234567890}'})
    assert same_ids(as_object, as_text)
    with pytest.raises(recipe.RequestError, match=r"arguments must be a string or an object, not 7"):
        called(model, {"arguments": 7})


def test_reasoning_by_its_other_name(model: str) -> None:
    def thought(**members: Any) -> recipe.Encoded:
        turn = {"role": "assistant", "content": "a", **members}
        return encode(model, USER, turn, USER, tools=TOOLS)

    expected = thought(reasoning_content="hmm")
    assert "<think>hmm</think>" in expected.prompt
    assert same_ids(thought(reasoning="hmm"), expected)
    assert same_ids(thought(reasoning="other", reasoning_content="hmm"), expected)
    assert same_ids(thought(reasoning="hmm", reasoning_content=None), expected)
    assert same_ids(thought(reasoning={"effort": "high"}), thought())


def test_every_role_has_content_in_parts(model: str) -> None:
    def said(parts: bool) -> recipe.Encoded:
        def content(*texts: str) -> Any:
            kinds = ["text", "input_text", "output_text"]
            return (
                [{"type": kinds[place % 3], "text": text} for place, text in enumerate(texts)]
                if parts
                else ("\n\n".join(texts))
            )

        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return encode(
            model,
            {"role": "system", "content": content("s", "t")},
            {"role": "developer", "content": content("d", "e")},
            {"role": "user", "content": content("u", "v", "w")},
            {"role": "assistant", "content": content("a", "b"), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": content("r", "s")},
            {"role": "latest_reminder", "content": content("l", "m")},
            tools=TOOLS,
        )

    assert same_ids(said(parts=True), said(parts=False))


def test_a_refusal_is_text(model: str) -> None:
    refusal = [{"type": "refusal", "refusal": "No."}]
    turns = [{"role": "assistant", "content": content} for content in (refusal, "No.")]
    assert same_ids(*(encode(model, USER, turn, USER) for turn in turns))


def allowed(mode: str, *names: str) -> dict[str, Any]:
    """A choice of some tools."""
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
@pytest.mark.parametrize(("mode", "kind"), [("auto", "tool_call"), ("required", "tool_call_required")])
def test_allowed_tools_leave_the_prompt_alone(model: str, thinking: str, mode: str, kind: str) -> None:
    members: dict[str, Any] = {"tools": TOOLS, "thinking": {"type": thinking}}
    some = encode(model, tool_choice=allowed(mode, "g"), **members)
    assert same_ids(some, encode(model, **members))
    assert some.constraint is not None and some.constraint.kind == kind
    assert some.constraint.allowed_tools == ["g"] == some.parsing.declared_tools
    assert not some.parsing.starts_in_tool_calls


def test_allowed_tools_must_be_declared(model: str) -> None:
    with pytest.raises(recipe.RequestError, match="names the tool h, which is not declared") as caught:
        encode(model, tools=TOOLS, tool_choice=allowed("auto", "f", "h"))
    assert caught.value.param == "tool_choice.allowed_tools.tools[1].function.name"
    assert encode(model, tool_choice=allowed("auto", "h")).constraint is None


NAMED = {"type": "function", "function": {"name": "g"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_may_be_required_while_thinking(model: str, choice: Any) -> None:
    tools = TOOLS if choice == "required" else TOOLS[1:]
    forced = encode(model, tools=TOOLS, tool_choice=choice)
    assert same_ids(forced, encode(model, tools=tools))
    assert forced.prompt.endswith("<think>")
    assert (forced.parsing.initial_stage, forced.parsing.starts_in_tool_calls) == ("reasoning_start", False)
    constraint = forced.constraint
    assert constraint is not None and (constraint.kind, constraint.after_thinking) == ("tool_call_required", True)


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_without_thinking_the_prompt_begins_the_call(model: str, choice: Any) -> None:
    forced = encode(model, tools=TOOLS, tool_choice=choice, thinking={"type": "disabled"})
    assert forced.parsing.starts_in_tool_calls
    constraint = forced.constraint
    assert constraint is not None and (constraint.kind, constraint.after_thinking) == ("tool_call_required", False)


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_an_option_restores_the_services_refusal(model: str, choice: Any) -> None:
    options = recipe.Options(required_choice_while_thinking="reject")
    body = {"model": model, "messages": [USER], "tools": TOOLS, "tool_choice": choice}
    with pytest.raises(recipe.RequestError, match="a call cannot be required in thinking mode") as caught:
        recipe.encode(body, "chat_completions", options=options)
    assert (caught.value.status_code, caught.value.param) == (400, "tool_choice")
    off = body | {"thinking": {"type": "disabled"}}
    assert recipe.encode(off, "chat_completions", options=options).parsing.starts_in_tool_calls
    with pytest.raises(ValueError, match="required_choice_while_thinking must be"):
        recipe.Options(required_choice_while_thinking="maybe")  # type: ignore[arg-type]


def test_the_decoder_reads_reasoning_and_then_the_forced_call(model: str) -> None:
    forced = encode(model, tools=TOOLS, tool_choice="required")
    version = "v4" if model == MODELS[0] else "v4.1"
    block, invoke = ("tool_calls", "invoke") if version == "v4" else (" calls", " invoke")
    decoder = forced.decoder(id="a", created=0, seed=b"s")
    decoder.start()
    decoder.push_text(
        f'hm</think>\n\n<｜DSML｜{block}>\n<｜DSML｜{invoke} name="f">\n</｜DSML｜{invoke}>\n</｜DSML｜{block}>'
    )
    decoder.finish("stop")
    assert b'"reasoning_content":"hm"' in decoder.response() and b'"name":"f"' in decoder.response()


def test_penalties_and_biases_are_carried(model: str) -> None:
    sampling = encode(model, frequency_penalty=0.5, presence_penalty=-2, logit_bias={"5": -100, "7": 1.5}).sampling
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.5, -2.0)
    assert sampling.logit_bias == {5: -100.0, 7: 1.5}
    neutral = encode(model, frequency_penalty=None, logit_bias=None).sampling
    assert (neutral.frequency_penalty, neutral.presence_penalty, neutral.logit_bias, neutral.top_k) == (0, 0, {}, None)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"presence_penalty": 2.5}, "presence_penalty must be from -2 to 2, not 2.5"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5 must be from -100 to 100, not 101"),
        ({"logit_bias": {"-1": 1}}, "logit_bias.-1: the key must be a token id, not -1"),
        ({"logit_bias": []}, "logit_bias must be an object, not an array"),
    ]
    for members, message in cases:
        with pytest.raises(recipe.RequestError) as caught:
            encode(model, **members)
        assert str(caught.value) == message


def test_template_settings_are_tolerated(model: str) -> None:
    for value in ({"thinking": False}, {"enable_thinking": False}, {}, "x", 3):
        tolerated = encode(model, chat_template_kwargs=value)
        assert same_ids(tolerated, encode(model))
        assert [warning.split(":")[0] for warning in tolerated.warnings] == ["chat_template_kwargs"]


def test_parallel_calls_are_a_matter_of_the_constraint(model: str) -> None:
    for parallel in (True, False):
        encoded = encode(model, tools=TOOLS, parallel_tool_calls=parallel)
        assert encoded.constraint is not None and encoded.constraint.single_call is not parallel
        assert same_ids(encoded, encode(model, tools=TOOLS))


def test_strict_tools_are_held_to_the_schema_as_written(model: str) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"A": {"type": "string", "minLength": 2}},
    }
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": parameters}}
    encoded = encode(model, tools=[copy.deepcopy(tool)])
    assert encoded.constraint is not None and encoded.constraint.text is not None
    assert '"minLength":2' in encoded.constraint.text and "minLength" not in encoded.prompt


def test_the_budget_of_reasoning(model: str) -> None:
    assert encode(model).thinking_budget is None
    assert encode(model, thinking={"type": "enabled", "budget_tokens": 2048}).thinking_budget == 2048
    assert encode(model, max_thinking_tokens=99).thinking_budget == 99
    both = encode(model, max_thinking_tokens=99, thinking={"type": "adaptive", "budget_tokens": 7})
    assert both.thinking_budget == 7
    off = encode(model, max_thinking_tokens=99, thinking={"type": "disabled", "budget_tokens": 7})
    assert off.thinking_budget is None
