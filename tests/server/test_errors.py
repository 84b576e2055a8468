"""Failures in each protocol's envelope."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from starlette.exceptions import HTTPException

from deepinfer.errors import EngineError
from deepinfer.server.errors import ErrorAnswer, HttpError, answer_for, in_mid_answer
from deepinfer.server.protocols import ProtocolName, protocol_of_path

CASES: list[tuple[Exception, int, str]] = [
    (HttpError(413, "request_too_large", "too large"), 413, "request_too_large"),
    (EngineError("prompt too long", code="context_length_exceeded", client_fault=True), 400, "context_length_exceeded"),
    (EngineError("stopped", code="engine_stopped"), 503, "engine_stopped"),
    (EngineError("broken", code="engine_failed"), 500, "engine_failed"),
    (HTTPException(404), 404, "not_found"),
    (HTTPException(405, headers={"Allow": "POST"}), 405, "method_not_allowed"),
    (RuntimeError("secret detail"), 500, "internal_error"),
]


def answer(error: Exception, protocol: ProtocolName = "chat_completions") -> ErrorAnswer:
    return answer_for(error, protocol, method="GET", path="/v1/x")


@pytest.mark.parametrize(("error", "status", "code"), CASES)
def test_status_and_code(error: Exception, status: int, code: str) -> None:
    found = answer(error)
    assert (found.status, found.code) == (status, code)
    assert json.loads(found.body)["error"]["code"] == code


@pytest.mark.parametrize("protocol", get_args(ProtocolName))
@pytest.mark.parametrize(("error", "status", "code"), CASES)
def test_each_protocol_has_its_own_envelope(protocol: ProtocolName, error: Exception, status: int, code: str) -> None:
    body: dict[str, Any] = json.loads(answer(error, protocol).body)
    assert body["error"]["message"]
    assert (body.get("type") == "error") == (protocol == "messages")


def test_an_unforeseen_failure_tells_no_detail() -> None:
    error = RuntimeError("secret detail")
    assert b"secret" not in answer(error).body
    assert "secret" not in str(in_mid_answer(error))
    assert in_mid_answer(error).code == "internal_error"


def test_an_engines_failure_in_mid_answer_keeps_its_words() -> None:
    failure = in_mid_answer(EngineError("the engine broke", code="engine_failed"))
    assert (failure.status_code, failure.code, str(failure)) == (500, "engine_failed", "the engine broke")


def test_a_405_names_what_is_allowed() -> None:
    found = answer(HTTPException(405, headers={"Allow": "POST"}))
    assert found.headers["allow"] == "POST"
    assert "/v1/x does not answer GET; use POST" in json.loads(found.body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/chat/completions", "chat_completions"),
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "messages"),
        ("/v1/responses", "responses"),
        ("/v1/responses/resp_1", "responses"),
        ("/anthropic/v1/models", "messages"),
        ("/", "chat_completions"),
    ],
)
def test_every_path_has_a_nearest_protocol(path: str, protocol: ProtocolName) -> None:
    assert protocol_of_path(path) == protocol
