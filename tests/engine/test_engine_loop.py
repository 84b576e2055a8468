"""The synchronous loop: how sequences end, what outputs carry, and that memory comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from deepinfer.cache.pool import ModelCache
from deepinfer.core import FinishReason, SamplingParams, StepOutput
from deepinfer.engine import EngineLoop
from deepinfer.errors import EngineError
from deepinfer.model.batch import Batch
from deepinfer.model.transformer import Transformer
from tests.engine.support import CONFIG, TINY, engine_loop, greedy, prompt, request, run


def outputs_of(engine: EngineLoop, sampling: SamplingParams) -> list[StepOutput]:
    engine.add(request("a", prompt(1, 100), sampling))
    outputs = []
    while engine.has_work:
        outputs += [output for _, output in engine.step() if isinstance(output, StepOutput)]
    return outputs


def test_ends_at_max_tokens() -> None:
    outputs = outputs_of(engine_loop(), greedy(5))
    assert [len(output.token_ids) for output in outputs] == [1] * 5
    assert [output.finish_reason for output in outputs] == [None] * 4 + [FinishReason.LENGTH]
    assert [output.cached_tokens for output in outputs] == [0, None, None, None, None]
    assert all(output.logprobs is None for output in outputs)


def test_ends_at_a_stop_token_and_includes_it() -> None:
    engine = engine_loop()
    token_ids = run(engine, [request("a", prompt(1, 100), greedy(9))])["a"]
    stop = token_ids[4]
    assert stop not in token_ids[:4]
    sampling = SamplingParams(max_tokens=9, temperature=0.0, stop_token_ids=(TINY.vocab_size - 1, stop))
    outputs = outputs_of(engine, sampling)
    assert [token_id for output in outputs for token_id in output.token_ids] == token_ids[:5]
    assert outputs[-1].finish_reason is FinishReason.STOP


def test_a_full_context_can_be_filled() -> None:
    engine = engine_loop()
    room = CONFIG.context_length - 100
    assert len(outputs_of(engine, greedy(room))) == room


def test_logprobs_describe_the_sampled_token() -> None:
    outputs = outputs_of(engine_loop(), SamplingParams(max_tokens=5, temperature=0.0, top_logprobs=3))
    for output in outputs:
        assert output.logprobs is not None
        [logprob] = output.logprobs
        assert len(logprob.top) == 3
        assert logprob.top[0] == (output.token_ids[0], logprob.logprob)
        assert logprob.top[0][1] >= logprob.top[1][1] >= logprob.top[2][1]


def test_requests_without_a_seed_differ() -> None:
    sampling = SamplingParams(max_tokens=10)
    answers = run(engine_loop(), [request(name, prompt(1, 9), sampling) for name in "ab"])
    assert answers["a"] != answers["b"]


def test_abort_frees_at_once_and_all_blocks_come_back() -> None:
    engine = engine_loop()
    for number in range(5):
        engine.add(request(str(number), prompt(number, 60), greedy(50)))
    for _ in range(4):
        engine.step()
    held = engine.cache_bytes
    assert held > 0
    assert engine.abort("0") == [("0", StepOutput(token_ids=(), finish_reason=FinishReason.ABORT))]
    assert engine.cache_bytes < held
    assert engine.abort("0") == engine.abort("unknown") == []
    engine.step()
    assert {name for name, _ in engine.abort_all()} == {"1", "2", "3", "4"}
    assert not engine.has_work
    assert engine.cache_bytes == engine.running_count == 0
    engine._scheduler.check_integrity()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0, 0, 0, 0]),
        ({"presence_penalty": 0.25}, [0, 1, 2, 0]),
        ({"frequency_penalty": 0.15}, [0, 1, 0, 2]),
        ({"repetition_penalty": 2.0}, [2, 3, 4, 0]),
        ({"logit_bias": {3: 0.25}}, [0, 0, 0, 0]),
        ({"logit_bias": {3: 0.35}}, [3, 3, 3, 3]),
        ({"logit_bias": {0: -100.0}}, [1, 1, 1, 1]),
    ],
)
def test_penalties_and_biases_move_the_next_token(
    settings: dict[str, Any], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model gives logit 1 to token 0, and 0.1 less to each further one; the prompt holds tokens 0 and 1."""

    def falling(_: Transformer, batch: Batch, __: ModelCache) -> Tensor:
        return (1 - torch.arange(TINY.vocab_size) / 10).expand(len(batch.output_rows), -1)

    monkeypatch.setattr(Transformer, "forward", falling)
    sampling = replace(greedy(4), **settings)
    assert run(engine_loop(), [request("a", [0, 1], sampling)])["a"] == expected


@pytest.mark.parametrize("asks_logprobs", [False, True])
def test_logits_that_are_no_numbers_end_one_request(asks_logprobs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_loop()
    sampling = replace(greedy(6), top_logprobs=2 if asks_logprobs else None)
    expected = run(engine_loop(), [request(name, prompt(place, 20), sampling) for place, name in enumerate("abc")])
    forward, calls = Transformer.forward, 0

    def fail_once(model: Transformer, batch: Batch, pool: ModelCache) -> Tensor:
        nonlocal calls
        calls += 1
        logits = forward(model, batch, pool)
        if calls == 3:
            logits[1, 5] = torch.nan
        return logits

    monkeypatch.setattr(Transformer, "forward", fail_once)
    answers: dict[str, list[int]] = {name: [] for name in "abc"}
    failures: dict[str, EngineError] = {}
    for place, name in enumerate("abc"):
        engine.add(request(name, prompt(place, 20), sampling))
    while engine.has_work:
        for name, output in engine.step():
            if isinstance(output, EngineError):
                failures[name] = output
            else:
                answers[name] += output.token_ids
    [(failed, error)] = failures.items()
    assert (error.code, error.client_fault) == ("non_finite_logits", False)
    assert answers == {**expected, failed: expected[failed][:2]}
    assert engine.cache_bytes == 0
