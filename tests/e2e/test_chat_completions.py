"""Chat Completions with the official client, streaming and not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.e2e.server_process import ServerProcess, chat_body

WEATHER_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}


@pytest.fixture
def scripted(scripted_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def native(native_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{native_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def visible(completion: ChatCompletion) -> list[dict[str, Any]]:
    """What a client sees of an answer, without the ids and times that differ from call to call."""
    seen = []
    for choice in completion.choices:
        calls = [call for call in choice.message.tool_calls or [] if call.type == "function"]
        seen.append(
            {
                "finish_reason": choice.finish_reason,
                "content": choice.message.content,
                "reasoning": getattr(choice.message, "reasoning_content", None),
                "calls": [(call.function.name, json.loads(call.function.arguments)) for call in calls],
            }
        )
    return seen


def folded(stream: openai.Stream[ChatCompletionChunk]) -> list[dict[str, Any]]:
    """Fold a stream's chunks by hand: the client's accumulator raises on answers that were cut at their limit."""
    seen: dict[int, dict[str, Any]] = {}
    for chunk in stream:
        for choice in chunk.choices:
            place = seen.setdefault(choice.index, {"finish_reason": None, "content": "", "reasoning": "", "calls": []})
            place["content"] += choice.delta.content or ""
            place["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
            place["finish_reason"] = choice.finish_reason or place["finish_reason"]
    return [seen[index] for index in sorted(seen)]


def without_nulls(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An absent text and an empty one are the same to a fold."""
    return [{**choice, "content": choice["content"] or "", "reasoning": choice["reasoning"] or ""} for choice in seen]


def test_reasoning_and_tool_call_come_apart(scripted: openai.OpenAI) -> None:
    completion = scripted.chat.completions.create(**chat_body("How is the weather?", tools=[WEATHER_TOOL]))
    assert visible(completion) == [
        {
            "finish_reason": "tool_calls",
            "content": "I will look it up.",
            "reasoning": "The user asks about the weather, so I call the tool.",
            "calls": [("get_weather", {"city": "Paris", "days": 2})],
        }
    ]
    assert completion.model == "deepinfer-tiny"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


@pytest.mark.parametrize("question", ["How is the weather?", "Hello"])
def test_accumulated_stream_equals_plain_answer(scripted: openai.OpenAI, question: str) -> None:
    body = chat_body(question, tools=[WEATHER_TOOL])
    # From the second time on, the prompt is cached.
    scripted.chat.completions.create(**body)
    plain = scripted.chat.completions.create(**body)
    with scripted.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    assert visible(final) == visible(plain)
    assert final.usage == plain.usage


def test_tool_loop_ends_with_an_answer(scripted: openai.OpenAI) -> None:
    body = chat_body("How is the weather?", tools=[WEATHER_TOOL])
    first = scripted.chat.completions.create(**body).choices[0].message
    assert first.tool_calls is not None
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": '{"temperature": 21}'}
    body["messages"] += [first.model_dump(exclude_none=True), result]
    second = scripted.chat.completions.create(**body)
    assert second.choices[0].message.content == "It is 21 degrees and sunny in Paris."
    assert second.choices[0].finish_reason == "stop"


def test_stop_string_cuts_the_answer_and_ends_the_request(
    scripted: openai.OpenAI, scripted_server: ServerProcess
) -> None:
    body = chat_body("never end", stop=["so on"])
    plain = scripted.chat.completions.create(**body)
    assert plain.choices[0].message.content == "and "
    assert plain.choices[0].finish_reason == "stop"
    with scripted.chat.completions.stream(**body) as stream:
        assert visible(stream.get_final_completion()) == visible(plain)
    assert scripted_server.health()["running"] == 0


def test_cut_answer_says_so(scripted: openai.OpenAI) -> None:
    assert scripted.chat.completions.create(**chat_body("be cut")).choices[0].finish_reason == "length"
    short = scripted.chat.completions.create(**chat_body("Hello", max_tokens=2))
    assert short.choices[0].finish_reason == "length"
    assert short.usage is not None and short.usage.completion_tokens == 2


def test_several_answers_come_plain_and_streamed(scripted: openai.OpenAI) -> None:
    body = chat_body("How is the weather?", tools=[WEATHER_TOOL], n=2)
    plain = scripted.chat.completions.create(**body)
    assert [choice.index for choice in plain.choices] == [0, 1]
    assert visible(plain)[0] == visible(plain)[1]
    with scripted.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    assert visible(final) == visible(plain) and final.usage == plain.usage
    single = scripted.chat.completions.create(**(body | {"n": 1})).usage
    assert plain.usage is not None and single is not None
    assert plain.usage.prompt_tokens == single.prompt_tokens
    assert plain.usage.completion_tokens == 2 * single.completion_tokens


def test_native_answers_differ_and_come_apart(native: openai.OpenAI) -> None:
    body = chat_body("Hello", max_completion_tokens=20, seed=7, temperature=1.0, n=3)
    plain = native.chat.completions.create(**body)
    assert [choice.index for choice in plain.choices] == [0, 1, 2]
    seen = without_nulls(visible(plain))
    assert folded(native.chat.completions.create(**body, stream=True)) == seen
    assert len({choice["reasoning"] + choice["content"] for choice in seen}) > 1


def test_native_honours_penalties_and_biases(native: openai.OpenAI) -> None:
    """One token is by far the best, until its penalty has grown."""
    bias = {"5": 100, "6": 80}
    body = chat_body(
        "Hello", max_tokens=40, temperature=0, extra_body={"thinking": {"type": "disabled"}}, logprobs=True
    )

    def ids(**fields: Any) -> list[bytes]:
        [choice] = native.chat.completions.create(**body | fields).choices
        assert choice.logprobs is not None and choice.logprobs.content is not None
        return [bytes(entry.bytes or ()) for entry in choice.logprobs.content]

    assert len(set(ids(logit_bias=bias))) == 1
    assert len(set(ids(logit_bias=bias, frequency_penalty=2))) == 2


def test_what_nobody_can_honour_is_a_bad_request(native: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        native.chat.completions.create(**chat_body("Hello", n=9))
    assert (caught.value.code, caught.value.param) == ("out_of_range", "n")


def test_native_answer_is_the_same_plain_and_streamed(native: openai.OpenAI) -> None:
    body = chat_body("Hello", max_tokens=40, seed=7, temperature=1.0)
    plain = native.chat.completions.create(**body)
    assert plain.usage is not None and plain.usage.completion_tokens == 40
    streamed = folded(native.chat.completions.create(**body, stream=True))
    assert streamed == without_nulls(visible(plain))


def test_native_answers_in_text_without_thinking(native: openai.OpenAI) -> None:
    completion = native.chat.completions.create(
        **chat_body("Hello", max_tokens=20, seed=1), extra_body={"thinking": {"type": "disabled"}}
    )
    assert completion.choices[0].message.content
    assert not getattr(completion.choices[0].message, "reasoning_content", None)


def test_log_probabilities_come_with_each_token(native: openai.OpenAI) -> None:
    body = chat_body("Hello", max_tokens=5, seed=2, logprobs=True, top_logprobs=3, thinking={"type": "disabled"})
    extra = {"thinking": body.pop("thinking")}
    (choice,) = native.chat.completions.create(**body, extra_body=extra).choices
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert 0 < len(choice.logprobs.content) <= 5
    for entry in choice.logprobs.content:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3


def test_unknown_model_is_the_clients_not_found_error(scripted: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        scripted.chat.completions.create(**{**chat_body("Hello"), "model": "gpt-9"})
    assert caught.value.code == "model_not_found"


def test_too_long_a_prompt_is_a_bad_request(native: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        native.chat.completions.create(**chat_body("word " * 40_000))
    assert caught.value.code == "context_length_exceeded"


def test_models_are_listed_and_found(scripted: openai.OpenAI) -> None:
    assert [model.id for model in scripted.models.list()] == ["deepinfer-tiny"]
    assert scripted.models.retrieve("deepinfer-tiny").owned_by == "deepinfer"
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        scripted.models.retrieve("gpt-9")
