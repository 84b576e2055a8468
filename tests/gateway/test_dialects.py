"""What is asked of upstreams of each kind, and how their answers are read."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec
import pytest

from deepinfer.backends.remote.dialects import Dialect, GrammarForm
from deepinfer.backends.remote.dialects.openai import OpenAiDialect
from deepinfer.backends.remote.dialects.sglang import SglangDialect
from deepinfer.backends.remote.dialects.text import TextDialect
from deepinfer.backends.remote.faults import UpstreamFaultError
from deepinfer.core import FinishReason, Grammar, StepOutput, ThinkingLimit, TokenLogprob
from tests.gateway.peer import END, VOCABULARY, request

OPENAI = OpenAiDialect("tiny", VOCABULARY, GrammarForm.FROM_THE_START)
OWN = OpenAiDialect("tiny", VOCABULARY, GrammarForm.WHOLE)
SGLANG = SglangDialect(VOCABULARY, GrammarForm.FROM_THE_START)
GRAMMAR = Grammar(text='start: "a"', start_after=9, field="tools")
ALL = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.3,
    "repetition_penalty": 1.1,
    "logit_bias": {7: -5.0},
    "seed": 11,
    "top_logprobs": 2,
}


def asked(dialect: Dialect, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(dialect.body(request(**fields)))
    return body


def test_vllm_is_asked_for_all_of_it() -> None:
    assert asked(OPENAI, sampling=ALL, grammar=Grammar(text="start: A")) == {
        "model": "tiny",
        "prompt": [5, 6, 7],
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "logit_bias": {"7": -5.0},
        "seed": 11,
        "logprobs": 2,
        "return_tokens_as_token_ids": True,
        "stop_token_ids": [END],
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "structured_outputs": {"grammar": "start: A"},
    }


def test_defaults_of_a_models_generation_config_are_overridden() -> None:
    body = asked(OPENAI)
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)


def test_another_deepinfer_gets_grammar_and_limit_whole() -> None:
    whole = request(sampling=ALL, grammar=GRAMMAR, thinking_limit=ThinkingLimit(tokens=3, end_token_id=9))
    assert OWN.media_type == "application/msgpack"
    body = msgspec.msgpack.decode(OWN.body(whole), strict=False)
    assert (body["prompt_ids"], body["logit_bias"]) == (struct.pack("<3I", 5, 6, 7), {7: -5.0})
    assert body["grammar"] == {
        "text": 'start: "a"',
        "start_after": 9,
        "trigger": None,
        "binding": True,
        "required": True,
        "field": "tools",
    }
    assert body["thinking_limit"] == {"tokens": 3, "end_token_id": 9}
    assert "structured_outputs" not in body


def test_sglang_is_asked_for_all_of_it() -> None:
    body = asked(SGLANG, sampling=ALL, grammar=Grammar(text="start: A"))
    assert body == {
        "input_ids": [5, 6, 7],
        "stream": True,
        "return_logprob": True,
        "top_logprobs_num": 2,
        "logprob_start_len": -1,
        "sampling_params": {
            "max_new_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 40,
            "min_p": 0.1,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "repetition_penalty": 1.1,
            "logit_bias": {"7": -5.0},
            "sampling_seed": 11,
            "stop_token_ids": [END],
            "skip_special_tokens": False,
            "ebnf": "start: A",
        },
    }


def test_prompts_go_as_text_where_ids_are_not_taken() -> None:
    assert asked(TextDialect("tiny", None))["prompt"] == [5, 6, 7]
    assert asked(TextDialect("tiny", lambda ids: "five six seven"))["prompt"] == "five six seven"


def read(
    dialect: Dialect, *reads: list[Any], **fields: Any
) -> tuple[list[StepOutput | None], FinishReason | None, bool]:
    reader = dialect.reader(request(**fields))
    outputs = [
        reader.read([event if isinstance(event, bytes) else json.dumps(event).encode() for event in events])
        for events in reads
    ]
    return outputs, reader.finish, reader.complete


def choice(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None, **members}]}


def test_vllms_events() -> None:
    """As vLLM 0.32 sends them: the prompt's ids once, the stop token among the ids, the cost at the end."""
    outputs, finish, complete = read(
        OPENAI,
        [choice(text="a", token_ids=[10], prompt_token_ids=[5, 6, 7])],
        [choice(text="b", token_ids=[11, 12]), choice(text="", token_ids=[END], finish_reason="stop", stop_reason=END)],
        [{"choices": [], "usage": {"completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}}, b"[DONE]"],
    )
    assert outputs == [
        StepOutput(token_ids=(10,)),
        StepOutput(token_ids=(11, 12, END)),
        StepOutput(token_ids=(), cached_tokens=2),
    ]
    assert (finish, complete) == (FinishReason.STOP, True)


def test_vllms_log_probabilities() -> None:
    logprobs = {
        "tokens": ["token_id:10", "token_id:11"],
        "token_logprobs": [-2.5, None],
        "top_logprobs": [{"token_id:10": -2.5, "token_id:20": -0.5, "token_id:21": -1.0}, None],
    }
    outputs, _, _ = read(OPENAI, [choice(token_ids=[10, 11], logprobs=logprobs)], sampling={"top_logprobs": 2})
    assert outputs[0] is not None and outputs[0].logprobs == (
        TokenLogprob(-2.5, ((20, -0.5), (21, -1.0))),
        TokenLogprob(-9999.0, ()),
    )


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"token_logprobs": [-1.0, -2.0]},
        {"token_logprobs": [-1.0], "top_logprobs": [{" word": -1.0}]},
        {"token_logprobs": [-1.0], "top_logprobs": [{"token_id:999999": -1.0}]},
        {"token_logprobs": [-1.0], "top_logprobs": [{}, {}]},
    ],
)
def test_log_probabilities_that_do_not_fit_are_refused(logprobs: Any) -> None:
    with pytest.raises(UpstreamFaultError):
        read(OPENAI, [choice(token_ids=[10], logprobs=logprobs)], sampling={"top_logprobs": 1})


def generated(ids: list[int], count: int, finish: Any = None, **meta: Any) -> dict[str, Any]:
    return {"text": "x", "output_ids": ids, "meta_info": {"completion_tokens": count, "finish_reason": finish, **meta}}


STOPPED = {"type": "stop", "matched": END}


@pytest.mark.parametrize(
    "events",
    [
        [generated([10], 1), generated([10, 11, 12], 3), generated([10, 11, 12, END], 4, STOPPED)],
        [generated([10], 1), generated([11, 12], 3), generated([END], 4, STOPPED)],
        [generated([10], 1), generated([10, 11, 12], 4, STOPPED)],
        [generated([10], 1), generated([11, 12], 4, STOPPED)],
        [generated([10], 1), generated([10, 11, 12], 3, STOPPED)],
        [generated([10], 1), generated([11, 12], 3, STOPPED)],
    ],
    ids=["all so far", "one step", "all, end left out", "step, end left out", "all, not counted", "step, not counted"],
)
def test_sglangs_events_in_all_forms(events: list[Any]) -> None:
    events[0]["meta_info"]["cached_tokens"] = 2
    outputs, finish, _ = read(SGLANG, *([event] for event in events), [b"[DONE]"])
    found = [output for output in outputs if output is not None]
    assert [token_id for output in found for token_id in output.token_ids] == [10, 11, 12, END]
    assert [output.cached_tokens for output in found if output.cached_tokens is not None] == [2]
    assert finish is FinishReason.STOP


def test_sglangs_log_probabilities() -> None:
    entries: list[Any] = [[-0.5, 10, None], [-0.25, 11, "x"]]
    tops: list[Any] = [[[-0.5, 10, None], [-1.5, 20, None]], [[-0.25, 11, None]]]
    outputs, _, _ = read(
        SGLANG,
        [generated([10], 1, output_token_logprobs=entries[:1], output_top_logprobs=tops[:1])],
        [generated([10, 11], 2, output_token_logprobs=entries, output_top_logprobs=tops)],
        sampling={"top_logprobs": 2},
    )
    assert [output.logprobs for output in outputs if output is not None] == [
        (TokenLogprob(-0.5, ((10, -0.5), (20, -1.5))),),
        (TokenLogprob(-0.25, ((11, -0.25),)),),
    ]


@pytest.mark.parametrize(
    "event",
    [
        {"output_ids": [1]},
        {"error": {"message": "no"}},
        generated([10], 5),
        generated([10], -1),
        generated([129280], 1),
        generated([10], 1, {"type": "abort", "message": "gone"}),
        generated([10], 1, {"type": "new reason"}),
        b"[]",
        b"{",
    ],
)
def test_what_sglang_would_not_send_is_refused(event: Any) -> None:
    with pytest.raises(UpstreamFaultError):
        read(SGLANG, [event])


def test_texts_count_as_tokens_until_the_server_tells() -> None:
    outputs, finish, complete = read(
        TextDialect("tiny", None),
        [choice(text="Hel"), choice(text="lo")],
        [choice(text="", finish_reason="length")],
        [{"choices": [], "usage": {"completion_tokens": 5}}, b"[DONE]"],
    )
    assert outputs == [
        StepOutput(token_ids=(), text="Hello", text_tokens=2),
        None,
        StepOutput(token_ids=(), text="", text_tokens=3),
    ]
    assert (finish, complete) == (FinishReason.LENGTH, True)
