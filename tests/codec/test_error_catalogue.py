"""The catalogue of errors is complete: every code has an example that reaches it, and a body in every protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import deepseek_recipe as recipe

HERE = Path(__file__).parent
SCHEMAS = HERE.parents[1] / "schemas"
CATALOGUE: dict[str, Any] = {entry["code"]: entry for entry in json.loads((SCHEMAS / "errors.json").read_text("utf-8"))}
EXAMPLES = [json.loads(line) for line in (HERE / "error_examples.jsonl").read_text("utf-8").splitlines()]
Protocol = Literal["chat_completions", "responses", "messages"]
PROTOCOLS: tuple[Protocol, ...] = ("chat_completions", "responses", "messages")
REQUEST = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "q"}]}


def decoder() -> recipe.Decoder:
    """A decoder of an answer without thinking."""
    parsing = recipe.Parsing(initial_stage="content")
    return recipe.Decoder("chat_completions", parsing, id="1", model="m", created=0, seed=b"", tokenizer="v4")


def lack_control_token() -> None:
    """A tokenizer without a control token of the format."""
    options = recipe.Options(tokenizers={"v4.1": recipe.Tokenizer.built_in("v4")})
    recipe.encode(REQUEST | {"model": "DeepSeek-V4.1-Flash"}, "chat_completions", options=options)


def exceed_context() -> None:
    """A prompt that leaves no room for the answer."""
    recipe.encode(REQUEST | {"max_tokens": 100}, "chat_completions").resolve_max_tokens(100, 50)


def push_unknown_token() -> None:
    """A token beyond the vocabulary."""
    decoder().push([10_000_000])


def push_to_unknown_choice() -> None:
    """Output for the second choice of one."""
    decoder().push_text("a", choice=1)


def go_on_from_nothing() -> None:
    """An earlier response that the caller does not have."""
    body = {"model": "DeepSeek-V4-Pro", "input": "q", "previous_response_id": "resp_1"}
    recipe.encode(body, "responses", lookup=lambda id: None)


def go_on_from_something_else() -> None:
    """An earlier response that is a response no more."""
    body = {"model": "DeepSeek-V4-Pro", "input": "q", "previous_response_id": "resp_1"}
    recipe.encode(body, "responses", lookup=lambda id: {"object": "response"})


def demand(**wanted: Any) -> None:
    """An answer that cannot be enforced."""
    _ = recipe.encode(REQUEST | {"structured_outputs": wanted}, "chat_completions").grammar


CALLS: dict[str, Callable[[], None]] = {
    "not_stored": go_on_from_nothing,
    "invalid_stored": go_on_from_something_else,
    "unknown_control_token": lack_control_token,
    "context_length_exceeded": exceed_context,
    "unknown_token": push_unknown_token,
    "unknown_choice": push_to_unknown_choice,
    "unsupported_schema": lambda: demand(json={"not": {}}),
    "invalid_regex": lambda: demand(regex="("),
    "invalid_grammar": lambda: demand(grammar="start: @other"),
}

# The binding checks these before the codec can; the codec's own tests reach them.
BEHIND_THE_BINDING = {"logprobs_mismatch", "tokenizer_missing"}


def check_body(protocol: Protocol, error: recipe.RequestError) -> None:
    """The body of an error is its protocol's envelope of what the exception says."""
    body = json.loads(error.body)
    if protocol == "messages":
        assert body["type"] == "error"
        assert body["error"] == {"type": body["error"]["type"], "message": str(error)}
    else:
        assert body == {
            "error": {
                "message": str(error),
                "type": body["error"]["type"],
                "param": error.param,
                "code": error.code,
            }
        }


def check_message(error: recipe.RequestError) -> None:
    """The message is the catalogue's, with its places filled."""
    template = CATALOGUE[error.code]["message"].replace("{field}", error.param or "the request body")
    pieces = [re.escape(piece) for piece in re.split(r"\{\w+\}", template)]
    assert re.fullmatch("(.+)".join(pieces), str(error), flags=re.DOTALL), str(error)


def test_every_code_has_an_example() -> None:
    shown = {example["code"] for example in EXAMPLES} | set(CALLS)
    assert shown | BEHIND_THE_BINDING | {"backend_failed"} == set(CATALOGUE)
    assert not shown & BEHIND_THE_BINDING


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['code']}-{example['protocol']}")
def test_examples_are_refused(example: dict[str, Any]) -> None:
    body = example.get("text") or json.dumps(example["request"])
    options = recipe.Options(**example.get("options", {}))
    with pytest.raises(recipe.RequestError) as caught:
        recipe.encode(body, example["protocol"], options=options)
    error = caught.value
    assert (error.code, error.param) == (example["code"], example["param"]), str(error)
    assert error.status_code == CATALOGUE[error.code]["status"]
    check_message(error)
    check_body(example["protocol"], error)


@pytest.mark.parametrize("code", CALLS)
def test_calls_are_refused(code: str) -> None:
    with pytest.raises(recipe.RequestError) as caught:
        CALLS[code]()
    error = caught.value
    assert (error.code, error.status_code) == (code, CATALOGUE[code]["status"])
    check_message(error)


def test_a_failing_backend_ends_the_stream_with_its_code() -> None:
    answer = decoder()
    answer.start(prompt_tokens=1)
    event = json.loads(answer.fail("out of memory").split(b"\n\n")[0].removeprefix(b"data: "))
    assert event["error"] == {
        "message": "out of memory",
        "type": "server_error",
        "param": None,
        "code": "backend_failed",
    }


def test_an_exception_that_ends_the_stream_says_what_it_is_about() -> None:
    class RefusedError(Exception):
        code = "grammar_dead_end"
        status_code = 400
        param = "tools"

    answer = decoder()
    answer.start(prompt_tokens=1)
    event = json.loads(answer.fail(RefusedError("no way on")).split(b"\n\n")[0].removeprefix(b"data: "))
    assert event["error"] == {
        "message": "no way on",
        "type": "invalid_request_error",
        "param": "tools",
        "code": "grammar_dead_end",
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("code", CATALOGUE)
def test_every_protocol_has_a_body_for_every_code(code: str, protocol: Protocol) -> None:
    status = CATALOGUE[code]["status"]
    body = json.loads(recipe.error_body(protocol, status=status, code=code, message="m", param="p"))
    kinds = {400: "invalid_request_error", 404: "not_found_error", 500: "api_error"}
    if protocol == "messages":
        assert body == {"type": "error", "error": {"type": kinds[status], "message": "m"}}
    else:
        assert (body["error"]["message"], body["error"]["code"], body["error"]["param"]) == ("m", code, "p")
        assert body["error"]["type"] in ("invalid_request_error", "server_error")
