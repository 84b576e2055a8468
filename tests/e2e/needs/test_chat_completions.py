"""What clients of Chat Completions rely on: one test a need, with the official client."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from tests.e2e.needs.conftest import MODEL, LoggingServer
from tests.e2e.server_process import ServerProcess

LOOK: Any = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PING: Any = {"type": "function", "function": {"name": "ping"}}
TOOLS = [LOOK, PING]
Prompt = Callable[[Callable[[], object]], str]


def ask(content: Any, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


def test_usage_is_the_last_chunk_where_it_is_asked_for(oa: Any) -> None:
    plain = oa.chat.completions.create(**ask("usage please"))
    chunks = list(
        oa.chat.completions.create(**ask("usage please"), stream=True, stream_options={"include_usage": True})
    )
    assert [chunk.choices == [] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(chunk.usage is None for chunk in chunks[:-1])
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(chunks[-1].usage, name) == getattr(plain.usage, name)


def test_cached_tokens_are_told_in_both_ways(oa: Any) -> None:
    usages = [oa.chat.completions.create(**ask("a prompt that is sent twice")).usage for _ in range(2)]
    for usage in usages:
        hit, miss = (usage.model_extra[f"prompt_cache_{kind}_tokens"] for kind in ("hit", "miss"))
        assert usage.prompt_tokens_details.cached_tokens == hit
        assert hit + miss == usage.prompt_tokens
        assert usage.completion_tokens_details.reasoning_tokens > 0
    assert usages[1].prompt_tokens_details.cached_tokens > 0


def test_tool_deltas_name_a_call_once(oa: Any) -> None:
    plain = oa.chat.completions.create(**ask("two cities", tools=TOOLS))
    chunks = oa.chat.completions.create(**ask("two cities", tools=TOOLS), stream=True)
    deltas = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    seen: set[int] = set()
    for delta in deltas:
        first = delta.index not in seen
        assert (delta.id is not None, delta.type is not None, delta.function.name is not None) == (first,) * 3
        seen.add(delta.index)
    assert seen == {0, 1}
    with oa.chat.completions.stream(**ask("two cities", tools=TOOLS)) as stream:
        final = stream.get_final_completion()
    calls = [
        [(call.function.name, json.loads(call.function.arguments)) for call in answer.choices[0].message.tool_calls]
        for answer in (plain, final)
    ]
    assert calls[0] == calls[1] == [("look", {"city": "Oslo"}), ("ping", {})]


@pytest.mark.parametrize(("max_tokens", "reason"), [(200, "tool_calls"), (12, "length")])
def test_the_reason_of_the_end_is_in_the_stream(oa: Any, max_tokens: int, reason: str) -> None:
    body = ask("look it up", tools=TOOLS, max_tokens=max_tokens)
    assert oa.chat.completions.create(**body).choices[0].finish_reason == reason
    reasons = [chunk.choices[0].finish_reason for chunk in oa.chat.completions.create(**body, stream=True)]
    assert reasons == [None] * (len(reasons) - 1) + [reason]


@pytest.mark.parametrize("form", ["kept", "renamed", "removed"])
def test_reasoning_comes_back_in_any_form(oa: Any, prompt_of: Prompt, form: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "look it up"}]
    first = oa.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
    assert first.model_extra["reasoning_content"] == "I look it up."
    back = first.to_dict()
    if form != "kept":
        back.pop("reasoning_content")
    if form == "renamed":
        back["reasoning"] = "I look it up."
    messages += [back, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "Lookup result"}]
    prompt = prompt_of(lambda: oa.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS))
    assert ("I look it up." in prompt) == (form != "removed")


def test_thinking_is_switched_in_every_way(oa: Any) -> None:
    for extra in ({"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}):
        message = oa.chat.completions.create(**ask("hi"), extra_body=extra).choices[0].message
        assert message.content == "Plain answer." and not (message.model_extra or {}).get("reasoning_content")
    for effort in ("minimal", "low", "medium", "high", "xhigh", "max"):
        message = oa.chat.completions.create(**ask("hi"), reasoning_effort=effort).choices[0].message
        assert message.model_extra["reasoning_content"] == "Some thought."
    with pytest.raises(openai.BadRequestError) as caught:
        oa.chat.completions.create(**ask("hi"), reasoning_effort="enormous")
    assert caught.value.param == "reasoning_effort"
    oa.chat.completions.create(**ask("hi"), extra_body={"chat_template_kwargs": {"enable_thinking": True}})


def test_every_role_may_speak_in_parts(oa: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "look it "}, {"type": "text", "text": "up"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I do."}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Lookup result"}]},
    ]
    answer = oa.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == "Done with the lookup."


@pytest.mark.parametrize("arguments", ["", None, "absent", {"city": "Oslo"}, '{"city": "Os'])
def test_arguments_in_history_may_be_anything(oa: Any, arguments: Any) -> None:
    function: dict[str, Any] = {"name": "look", "arguments": arguments}
    if arguments == "absent":
        del function["arguments"]
    messages: list[Any] = [
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Lookup result"},
    ]
    for _ in range(2):
        try:
            answer = oa.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        except openai.BadRequestError as error:
            assert "arguments" in str(error)
        else:
            assert answer.choices[0].message.content == "Done with the lookup."
    assert oa.chat.completions.create(**ask("hi")).choices[0].message.content == "An answer."


def test_answers_in_json_are_parsed_and_thought_about(oa: Any) -> None:
    class Answer(pydantic.BaseModel):
        colour: str

    message = oa.chat.completions.parse(**ask("a colour as json"), response_format=Answer).choices[0].message
    assert message.parsed == Answer(colour="red")
    assert message.model_extra["reasoning_content"] == "A colour."


def test_stop_texts_end_the_answer_and_not_the_thinking(oa: Any) -> None:
    body = ask("restate", stop=["Question:", *(f"never {number}" for number in range(15))])
    message = oa.chat.completions.create(**body).choices[0].message
    assert (message.content, message.model_extra["reasoning_content"]) == ("The ", "Question: is asked.")
    chunks = list(oa.chat.completions.create(**body, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "The "


def test_either_name_of_the_limit_works_and_the_newer_wins(oa: Any) -> None:
    for fields in ({"max_tokens": 2}, {"max_completion_tokens": 2}, {"max_tokens": 9, "max_completion_tokens": 2}):
        assert oa.chat.completions.create(**ask("hi"), **fields).usage.completion_tokens == 2


def test_log_probabilities_are_of_the_text(native_server: ServerProcess) -> None:
    with openai.OpenAI(base_url=f"{native_server.url}/v1", api_key="none", max_retries=0) as native:
        body = ask("Hello", n=2, seed=4, max_tokens=6, logprobs=True, top_logprobs=2)
        choices = native.chat.completions.create(**body, extra_body={"thinking": {"type": "disabled"}}).choices
    assert [choice.index for choice in choices] == [0, 1]
    for choice in choices:
        assert choice.logprobs is not None
        data = b"".join(bytes(entry.bytes or []) for entry in choice.logprobs.content or [])
        assert data.decode("utf-8", "replace").rstrip("\ufffd") == (choice.message.content or "").rstrip("\ufffd")
        assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content or [])


def test_an_answer_goes_on_from_a_prefix(oa: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "go on"}]
    messages.append({"role": "assistant", "content": '{"colour": "', "prefix": True})
    extra = {"thinking": {"type": "disabled"}}
    answer = oa.chat.completions.create(model=MODEL, messages=messages, extra_body=extra)
    assert answer.choices[0].message.content == 'blue"}'


def test_fields_without_a_meaning_here_are_ignored(oa: Any) -> None:
    tool = {**LOOK, "cache_control": {"type": "ephemeral"}}
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    body = ask([part], tools=[tool], store=True, metadata={"a": "b"}, user="u", service_tier="auto")
    extra = {"prompt_cache_key": "k", "safety_identifier": "s", "verbosity": "low", "of_the_future": {"a": [1]}}
    assert oa.chat.completions.create(**body, extra_body=extra).choices[0].message.content == "An answer."


def test_errors_are_the_clients_exceptions(oa: Any) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        oa.chat.completions.create(**{**ask("hi"), "model": "gpt-9"})
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as faulty:
        oa.chat.completions.create(**ask("hi", temperature=5))
    assert (faulty.value.param, faulty.value.type) == ("temperature", "invalid_request_error")
    for body in (ask("word " * 210_000), ask("hi", max_tokens=199_999)):
        with pytest.raises(openai.BadRequestError) as long:
            oa.chat.completions.create(**body)
        assert long.value.code == "context_length_exceeded"
        assert "This model's maximum context length is 200000 tokens" in str(long.value)


def test_a_failure_in_mid_stream_is_the_clients_exception(oa: Any, server: LoggingServer) -> None:
    stream = oa.chat.completions.create(**ask("never end"), stream=True, extra_headers={"x-request-id": "fail-chat"})
    with pytest.raises(openai.APIError, match="cancelled"):
        for number, _ in enumerate(stream):
            if number == 2:
                server.http.delete("/v1/requests/fail-chat")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", ask("wait long")),
        ("/v1/messages", ask("wait long", max_tokens=100)),
        ("/v1/responses", {"model": MODEL, "input": "wait long"}),
        ("/v1/completions", {"model": MODEL, "prompt": "wait long"}),
    ],
)
def test_silence_is_filled_with_signs_of_life(server: LoggingServer, path: str, body: dict[str, Any]) -> None:
    text = server.http.post(path, json={**body, "stream": True}).text
    before, _, _ = text.partition("Waited")
    assert before.count(": keep-alive") + before.count('"type":"ping"') >= 3


def test_a_prompt_of_200000_tokens_is_answered_with_signs_of_life(tmp_path: Path, rules_file: Path) -> None:
    flags = ("--engine", "scripted", "--script", str(rules_file), "--keep-alive-seconds", "0.1")
    with ServerProcess(tmp_path / "log", *flags) as server:
        body = ask("some words here, " * 50_000 + "wait long", stream=True, stream_options={"include_usage": True})
        text = server.http.post("/v1/chat/completions", json=body, timeout=60).text
    assert text.partition("Waited")[0].count(": keep-alive") >= 3
    assert prompt_tokens(text) > 200_000


@pytest.mark.slow
def test_a_model_that_reads_a_long_prompt_gives_signs_of_life(tmp_path: Path) -> None:
    """10,000 tokens take the embedded model many seconds, in which the stream is never silent for long."""
    with ServerProcess(tmp_path / "log", "--keep-alive-seconds", "0.5", "--context-length", "32768") as server:
        body = ask("some words here, " * 2_500, stream=True, max_tokens=4)
        arrivals = [time.monotonic()]
        with server.http.stream("POST", "/v1/chat/completions", json=body, timeout=60) as response:
            data = b""
            for part in response.iter_raw():
                arrivals.append(time.monotonic())
                data += part
    assert data.partition(b"data:")[0].count(b": keep-alive") >= 3
    assert max(later - earlier for earlier, later in itertools.pairwise(arrivals)) < 15
    assert data.endswith(b"data: [DONE]\n\n")


def prompt_tokens(stream: str) -> int:
    """Prompt tokens that a stream's usage tells."""
    return max(int(number) for number in re.findall(r'"prompt_tokens":(\d+)', stream))
