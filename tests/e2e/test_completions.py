"""Text completion with the official client: texts and token ids, alone and many, plain and streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

import deepseek_recipe as recipe
from tests.e2e.server_process import ServerProcess

MODEL = "deepinfer-tiny"
ANSWER = "one two three, STOP four"
TOKENIZER = recipe.Tokenizer.built_in("v4.1")
BEGIN = "<｜begin▁of▁sentence｜>"


@pytest.fixture
def scripted(scripted_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def native(native_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{native_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def complete(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    return client.completions.create(model=MODEL, prompt=prompt, **{"max_tokens": 100, **fields})


def folded(stream: Any) -> tuple[dict[int, str], dict[int, str], Any]:
    """Texts, reasons of the end and the usage of a stream."""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usage = None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason is not None:
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, usage


def test_a_text_goes_on(scripted: openai.OpenAI) -> None:
    answer = complete(scripted, "please complete this")
    assert (answer.object, answer.model, answer.choices[0].finish_reason) == ("text_completion", MODEL, "stop")
    assert answer.choices[0].text == ANSWER
    # The text, the token that starts all prompts, and the answer with the token that ends it.
    assert answer.usage.prompt_tokens == 1 + len(TOKENIZER.encode("please complete this"))
    assert answer.usage.completion_tokens == 1 + len(TOKENIZER.encode(ANSWER))


def test_the_stream_is_the_plain_answer(scripted: openai.OpenAI) -> None:
    plain = complete(scripted, ["please complete this", "be completed in emoji"], n=2, echo=True)
    texts, reasons, usage = folded(
        complete(scripted, ["please complete this", "be completed in emoji"], n=2, echo=True, stream=True)
    )
    assert texts == {choice.index: choice.text for choice in plain.choices}
    assert reasons == {choice.index: choice.finish_reason for choice in plain.choices}
    assert usage == plain.usage
    assert [choice.index for choice in plain.choices] == [0, 1, 2, 3]
    assert texts[0] == texts[1] == "please complete this" + ANSWER
    assert texts[3] == "be completed in emoji🙂 日本語 🏳️\u200d🌈"


def test_the_last_chunk_has_the_usage_where_it_is_asked_for(scripted: openai.OpenAI) -> None:
    chunks = list(complete(scripted, "please complete", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


@pytest.mark.parametrize("stop", ["STOP", [", ST", "zzz"], ["two three, S", "e, STOP f"]])
def test_a_stop_text_is_not_shown(scripted: openai.OpenAI, scripted_server: ServerProcess, stop: Any) -> None:
    answer = complete(scripted, "please complete", stop=stop)
    first = min(ANSWER.find(text) for text in ([stop] if isinstance(stop, str) else stop) if text in ANSWER)
    assert answer.choices[0].text == ANSWER[:first]
    assert answer.choices[0].finish_reason == "stop"
    assert folded(complete(scripted, "please complete", stop=stop, stream=True))[0] == {0: ANSWER[:first]}
    assert scripted_server.health()["running"] == 0


def test_a_limit_cuts(scripted: openai.OpenAI) -> None:
    answer = complete(scripted, "please complete", max_tokens=2)
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 2)
    assert complete(scripted, "please complete", max_tokens=None).usage.completion_tokens <= 16


def test_token_ids_are_taken_as_they_are_and_given_back(scripted: openai.OpenAI) -> None:
    ids = TOKENIZER.encode("please complete this")
    for prompt in (ids, [ids]):
        (choice,) = complete(scripted, prompt, extra_body={"return_token_ids": True}).choices
        assert choice.text == ANSWER
        assert choice.model_extra["prompt_token_ids"] == ids
        assert choice.model_extra["token_ids"] == [*TOKENIZER.encode(ANSWER), recipe.eos_token_id("v4.1")]
    streamed = list(complete(scripted, ids, stream=True, extra_body={"return_token_ids": True}))
    found = [chunk.choices[0].model_extra for chunk in streamed]
    assert [extra.get("prompt_token_ids") for extra in found] == [ids, *[None] * (len(found) - 1)]
    assert [id for extra in found for id in extra["token_ids"]] == choice.model_extra["token_ids"]


def test_control_tokens_may_be_spelled_and_the_first_is_not_doubled(scripted_server: ServerProcess) -> None:
    texts = {"complete": True, f"{BEGIN}complete": True, "complete<｜User｜>": False}
    for text, begins in texts.items():
        ids = scripted_server.http.post("/tokenize", json={"prompt": text, "add_special_tokens": begins}).json()
        assert ids["tokens"].count(TOKENIZER.special_id(BEGIN)) == begins
        body = {"model": MODEL, "prompt": text, "add_special_tokens": begins}
        answer = scripted_server.http.post("/v1/completions", json=body).json()
        assert answer["usage"]["prompt_tokens"] == ids["count"]


def test_the_gap_is_filled_in_the_models_order(scripted: openai.OpenAI) -> None:
    body = {"prompt": "def f(<｜fim▁end｜>", "suffix": "    return x", "extra_body": {"return_token_ids": True}}
    (choice,) = complete(scripted, **body).choices
    assert choice.text == "x):\n"
    marks = [TOKENIZER.special_id(mark) for mark in (BEGIN, "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")]
    start, begin, hole, end = marks
    # What the code spells is text, not a control token.
    before, after = TOKENIZER.encode("def f(<｜fim▁end｜>"), TOKENIZER.encode("    return x")
    assert end not in before
    assert choice.model_extra["prompt_token_ids"] == [start, begin, *before, hole, *after, end]


def test_log_probabilities_are_of_the_tokens_of_the_text(native: openai.OpenAI) -> None:
    answer = complete(native, "Hello", max_tokens=6, logprobs=2, seed=3, extra_body={"return_token_ids": True})
    (choice,) = answer.choices
    found = choice.logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == len(found.text_offset)
    assert all(logprob <= 0 for logprob in found.token_logprobs)
    assert all(len(top) == 2 for top in found.top_logprobs)
    if not any(token.startswith("bytes:") for token in found.tokens):
        assert "".join(found.tokens) == choice.text
        lengths = [len(token) for token in found.tokens]
        assert found.text_offset == [sum(lengths[:place]) for place in range(len(lengths))]
    streamed = complete(native, "Hello", max_tokens=6, logprobs=2, seed=3, stream=True)
    parts = [part.choices[0].logprobs for part in streamed if part.choices and part.choices[0].logprobs]
    assert [token for part in parts for token in part.tokens] == found.tokens
    assert [offset for part in parts for offset in part.text_offset] == found.text_offset


def test_seeds_differ_between_choices(native: openai.OpenAI) -> None:
    first, again = (complete(native, "Hello", max_tokens=8, n=2, seed=5).choices for _ in range(2))
    assert [choice.text for choice in first] == [choice.text for choice in again]
    assert first[0].text != first[1].text


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": None}, "invalid_type", "prompt"),
    ({"prompt": []}, "empty_array", "prompt"),
    ({"prompt": [[]]}, "empty_array", "prompt[0]"),
    ({"prompt": ["a", 5]}, "invalid_type", "prompt"),
    ({"prompt": ["a", [5]]}, "invalid_type", "prompt"),
    ({"prompt": [True]}, "invalid_type", "prompt[0]"),
    ({"prompt": [-1]}, "invalid_token_id", "prompt"),
    ({"prompt": [2**70]}, "invalid_token_id", "prompt"),
    ({"prompt": [[1], [10**6]]}, "invalid_token_id", "prompt[1]"),
    ({"prompt": ["a"] * 65, "n": 2}, "array_too_long", "prompt"),
    ({"prompt": "", "add_special_tokens": False}, "empty_string", "prompt"),
    ({"n": 0}, "out_of_range", "n"),
    ({"n": 9}, "out_of_range", "n"),
    ({"n": "2"}, "invalid_type", "n"),
    ({"best_of": 3}, "unsupported", "best_of"),
    ({"max_tokens": 0}, "out_of_range", "max_tokens"),
    ({"max_tokens": 10**9}, "out_of_range", "max_tokens"),
    ({"temperature": 2.5}, "out_of_range", "temperature"),
    ({"top_p": -0.1}, "out_of_range", "top_p"),
    ({"logprobs": 21}, "out_of_range", "logprobs"),
    ({"logprobs": 1, "echo": True}, "unsupported", "logprobs"),
    ({"seed": 2**64}, "out_of_range", "seed"),
    ({"stop": ["x"] * 17}, "array_too_long", "stop"),
    ({"stop": ""}, "out_of_range", "stop"),
    ({"stop": "x" * 257}, "out_of_range", "stop"),
    ({"stop": [1]}, "invalid_type", "stop[0]"),
    ({"suffix": "x", "echo": True}, "unsupported", "echo"),
    ({"suffix": "x", "prompt": [5]}, "requires", "suffix"),
    ({"stream_options": {"include_usage": True}}, "requires", "stream_options"),
]


@pytest.mark.parametrize(("fields", "code", "param"), REFUSED, ids=lambda value: str(value)[:40])
def test_faults_are_named(scripted_server: ServerProcess, fields: dict[str, Any], code: str, param: str) -> None:
    body = {"model": MODEL, "prompt": "complete", **fields}
    response = scripted_server.http.post("/v1/completions", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, param)
    assert param in error["message"]


def test_settings_of_sampling_are_honoured_within_their_bounds(native_server: ServerProcess) -> None:
    def post(**fields: Any) -> httpx.Response:
        body = {"model": MODEL, "prompt": "a", "max_tokens": 40, "return_token_ids": True, **fields}
        return native_server.http.post("/v1/completions", json=body)

    def ids(**fields: Any) -> list[int]:
        found: list[int] = post(**fields).json()["choices"][0]["token_ids"]
        return found

    bias = {"5": 100, "6": 80}
    assert ids(logit_bias=bias) == [5] * 40
    assert set(ids(logit_bias=bias, frequency_penalty=2)) == {5, 6}
    assert ids(top_k=1) == ids(temperature=0) == ids(min_p=1)
    for name, value in (
        ("presence_penalty", 2.1),
        ("frequency_penalty", -3),
        ("repetition_penalty", 0),
        ("min_p", 2),
        ("top_k", -2),
        ("logit_bias", {"999999": 1}),
        ("logit_bias.5", {"5": 101}),
    ):
        response = post(**{name.partition(".")[0]: value})
        assert (response.status_code, response.json()["error"]["param"]) == (400, name)


def test_a_prompt_beyond_the_context_is_refused(native_server: ServerProcess) -> None:
    body = {"model": MODEL, "prompt": [5] * 32760, "max_tokens": 9}
    error = native_server.http.post("/v1/completions", json=body).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 32768 tokens" in error["message"] and "32769" in error["message"]


def test_an_unknown_model_is_a_404(scripted: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        scripted.completions.create(model="gpt-9", prompt="x")
