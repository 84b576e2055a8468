"""Messages requests that the reference refuses or half ignores: accepted, and meaning what they mean."""

from __future__ import annotations

from typing import Any

import pytest

import deepseek_recipe as recipe

USER: dict[str, Any] = {"role": "user", "content": "q"}
TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {"type": "object"}} for name in ("f", "g")]


@pytest.fixture(params=["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])
def model(request: pytest.FixtureRequest) -> str:
    """Each version's model."""
    name: str = request.param
    return name


def encode(
    model: str, *messages: dict[str, Any], options: recipe.Options | None = None, **members: Any
) -> recipe.Encoded:
    """Encodes a request of one user message, or of other messages."""
    body = {"model": model, "max_tokens": 99, "messages": list(messages) or [USER], **members}
    return recipe.encode(body, "messages", options=options)


def same_ids(left: recipe.Encoded, right: recipe.Encoded) -> bool:
    """Whether two requests are the same to the model."""
    return left.token_ids.tolist() == right.token_ids.tolist() and left.special_ranges == right.special_ranges


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
def test_any_requires_a_call_by_the_constraint_alone(model: str, thinking: str) -> None:
    members: dict[str, Any] = {"tools": TOOLS, "thinking": {"type": thinking}}
    free = encode(model, tool_choice={"type": "auto"}, **members)
    forced = encode(model, tool_choice={"type": "any"}, **members)
    assert same_ids(free, forced)
    assert free.constraint is not None and free.constraint.kind == "tool_call"
    assert forced.constraint is not None and forced.constraint.kind == "tool_call_required"
    assert forced.constraint.after_thinking is (thinking == "enabled")
    assert not forced.parsing.starts_in_tool_calls
    assert encode(model, tool_choice={"type": "any"}).constraint is None


def test_a_named_tool_while_thinking(model: str) -> None:
    named = {"type": "tool", "name": "g"}
    forced = encode(model, tools=TOOLS, tool_choice=named)
    assert same_ids(forced, encode(model, tools=TOOLS[1:]))
    assert forced.constraint is not None and forced.constraint.kind == "tool_call_required"
    options = recipe.Options(required_choice_while_thinking="reject")
    with pytest.raises(recipe.RequestError, match="a call cannot be required in thinking mode"):
        encode(model, tools=TOOLS, tool_choice=named, options=options)
    # The service itself does not force `any`, so there is no refusal of it to restore.
    assert encode(model, tools=TOOLS, tool_choice={"type": "any"}, options=options).constraint is not None


@pytest.mark.parametrize("kind", ["custom", None])
def test_custom_tools_are_the_clients(model: str, kind: str | None) -> None:
    assert same_ids(encode(model, tools=[{"type": kind, **tool} for tool in TOOLS]), encode(model, tools=TOOLS))


def test_other_types_are_the_servers(model: str) -> None:
    with pytest.raises(recipe.RequestError, match=r"tools\[0\].type: bash_20250124 is not supported"):
        encode(model, tools=[{"type": "bash_20250124", "name": "bash"}])
    searching = encode(model, tools=[{"type": "web_search_20250305", "name": "web_search"}, *TOOLS])
    assert same_ids(searching, encode(model, tools=TOOLS))
    assert searching.warnings == ["tools[0]: the server tool web_search_20250305 was left out"]


def test_strict_constrains_and_shows_nothing(model: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}
    plain, strict = (
        encode(model, tools=[{"name": "f", "input_schema": schema, **extra}, TOOLS[1]])
        for extra in ({}, {"strict": True})
    )
    assert same_ids(plain, strict)
    assert strict.constraint is not None and strict.constraint.text is not None
    assert '"minLength":1' in strict.constraint.text and '"strict":true' in strict.constraint.text


def with_result(**members: Any) -> list[dict[str, Any]]:
    """A conversation with one result."""
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", **members}
    return [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize("content", ["no file", [{"type": "text", "text": "no"}, {"type": "text", "text": "file"}]])
def test_errors_of_tools_are_shown_on_request(model: str, content: Any) -> None:
    failed = with_result(content=content, is_error=True)
    assert same_ids(encode(model, *failed), encode(model, *with_result(content=content)))
    options = recipe.Options(show_tool_errors=True)
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    marked = with_result(content=[{"type": "text", "text": "[Tool Error]"}, *texts])
    assert same_ids(encode(model, *failed, options=options), encode(model, *marked))
    fine = with_result(content=content, is_error=False)
    assert same_ids(encode(model, *fine, options=options), encode(model, *fine))


def test_an_error_without_content_is_shown_too(model: str) -> None:
    options = recipe.Options(show_tool_errors=True)
    shown = encode(model, *with_result(is_error=True), options=options)
    assert "<tool_result>[Tool Error]</tool_result>" in shown.prompt


def test_redacted_thinking_is_left_out(model: str) -> None:
    def turn(*blocks: dict[str, Any]) -> recipe.Encoded:
        return encode(model, USER, {"role": "assistant", "content": list(blocks)}, USER, tools=TOOLS)

    text, thinking = {"type": "text", "text": "a"}, {"type": "thinking", "thinking": "hm", "signature": ""}
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    assert same_ids(turn(redacted, text), turn(text))
    assert same_ids(turn(redacted, thinking, redacted, text), turn(thinking, text))
    assert turn(redacted, text).warnings == ["messages[1].content[0]: the redacted_thinking block was left out"]
    with pytest.raises(recipe.RequestError, match="redacted_thinking blocks can only be in assistant messages"):
        encode(model, {"role": "user", "content": [redacted]})


def test_redacted_thinking_counts_as_sent_back(model: str) -> None:
    blocks = [{"type": "redacted_thinking", "data": "x"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}
    options = recipe.Options(missing_reasoning="reject")
    encode(model, USER, {"role": "assistant", "content": blocks}, result, tools=TOOLS, options=options)
    with pytest.raises(recipe.RequestError, match="must be sent back"):
        encode(model, USER, {"role": "assistant", "content": blocks[1:]}, result, tools=TOOLS, options=options)


def document(**members: Any) -> list[dict[str, Any]]:
    """A conversation with a document in plain text."""
    source = {"type": "text", "media_type": "text/plain", "data": "Once upon a time"}
    return [{"role": "user", "content": [{"type": "document", "source": source, **members}]}]


def test_documents_in_plain_text_are_shown_on_request(model: str) -> None:
    options = recipe.Options(show_text_documents=True)
    assert "[Unsupported document type: text/plain]" in encode(model, *document()).prompt
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "Once upon a time"),
        ({"title": "A tale", "context": "For children"}, "A tale\n\nFor children\n\nOnce upon a time"),
        ({"title": None, "context": "", "citations": {"enabled": True}}, "Once upon a time"),
    ]
    for members, text in cases:
        shown = encode(model, *document(**members), options=options)
        assert same_ids(shown, encode(model, {"role": "user", "content": text}))
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    kept = encode(model, {"role": "user", "content": [pdf]}, options=options)
    assert "[Unsupported document type: application/pdf]" in kept.prompt


@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "f"}])
def test_single_calls_are_a_matter_of_the_constraint(model: str, choice: dict[str, Any]) -> None:
    for disabled in (True, False):
        encoded = encode(model, tools=TOOLS, tool_choice=choice | {"disable_parallel_tool_use": disabled})
        assert encoded.constraint is not None and encoded.constraint.single_call is disabled
        assert same_ids(encoded, encode(model, tools=TOOLS, tool_choice=choice))


def test_top_k_is_carried(model: str) -> None:
    assert [encode(model, top_k=top_k).sampling.top_k for top_k in (None, 0, 40)] == [None, None, 40]
    with pytest.raises(recipe.RequestError, match="top_k must be an integer from 0"):
        encode(model, top_k=-1)


def test_the_budget_of_reasoning(model: str) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2048}
    assert encode(model, thinking=thinking).thinking_budget == 2048
    assert encode(model, thinking=thinking, max_thinking_tokens=7).thinking_budget == 2048
    assert encode(model, max_thinking_tokens=7).thinking_budget == 7
    assert encode(model, max_thinking_tokens=7, thinking={"type": "disabled"}).thinking_budget is None
