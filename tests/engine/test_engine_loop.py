"""The synchronous loop: how sequences end, what outputs carry, and that memory comes back."""

from __future__ import annotations

from deepinfer.core import FinishReason, SamplingParams, StepOutput
from deepinfer.engine import EngineLoop
from tests.engine.support import CONFIG, TINY, engine_loop, greedy, prompt, request, run


def outputs_of(engine: EngineLoop, sampling: SamplingParams) -> list[StepOutput]:
    engine.add(request("a", prompt(1, 100), sampling))
    outputs = []
    while engine.has_work:
        outputs += [output for _, output in engine.step()]
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
    [(name, output)] = engine.abort("0")
    assert (name, output.token_ids, output.finish_reason) == ("0", (), FinishReason.ABORT)
    assert engine.cache_bytes < held
    assert engine.abort("0") == engine.abort("unknown") == []
    engine.step()
    assert {name for name, _ in engine.abort_all()} == {"1", "2", "3", "4"}
    assert not engine.has_work
    assert engine.cache_bytes == engine.running_count == 0
    engine._scheduler.check_integrity()
