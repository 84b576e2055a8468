"""Batching, prompt chunking, preemption and reuse of a prefix change no greedy and no seeded answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepinfer.config import EngineConfig
from deepinfer.core import Request, SamplingParams, StepOutput
from deepinfer.scheduler.sequence import Sequence
from tests.engine.support import CONFIG, engine_loop, greedy, prompt, request, run

LENGTHS = (1, 2, 15, 16, 17, 40, 63, 64, 65, 130, 150, 7)


def requests(*, seeded: bool) -> list[Request]:
    return [
        request(
            str(number),
            prompt(number, length),
            SamplingParams(max_tokens=40, top_p=0.9, seed=number) if seeded else greedy(40),
        )
        for number, length in enumerate(LENGTHS)
    ]


def alone(*, seeded: bool) -> dict[str, list[int]]:
    """Each request in a batch of its own, its prompt in one piece."""
    engine = engine_loop(replace(CONFIG, max_step_tokens=256))
    return {name: ids for one in requests(seeded=seeded) for name, ids in run(engine, [one]).items()}


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(replace(CONFIG, max_step_tokens=2048), id="batched"),
        pytest.param(replace(CONFIG, max_step_tokens=16), id="chunked"),
        pytest.param(replace(CONFIG, max_step_tokens=16, max_running_sequences=3), id="queued"),
        pytest.param(replace(CONFIG, block_size=6, block_count=200), id="other-blocks"),
    ],
)
def test_answers_do_not_depend_on_scheduling(config: EngineConfig, seeded: bool) -> None:
    expected = alone(seeded=seeded)
    assert len({tuple(ids) for ids in expected.values()}) == len(LENGTHS)
    assert all(len(set(ids)) > 20 for ids in expected.values()), "answers too monotonous to prove anything"
    assert run(engine_loop(config), requests(seeded=seeded)) == expected


@pytest.mark.parametrize("seeded", [False, True])
def test_answers_survive_preemption(seeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = alone(seeded=seeded)
    engine = engine_loop(replace(CONFIG, context_length=200, block_size=8, block_count=30))
    preempted: list[str] = []
    preempt = engine._scheduler._preempt

    def spy(sequence: Sequence) -> None:
        preempted.append(sequence.request.request_id)
        preempt(sequence)

    monkeypatch.setattr(engine._scheduler, "_preempt", spy)
    assert run(engine, requests(seeded=seeded)) == expected
    assert len(preempted) >= 3


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("kept_sequences", [0, 4, 64])
def test_answers_do_not_depend_on_what_is_kept(kept_sequences: int, seeded: bool) -> None:
    expected = alone(seeded=seeded)
    engine = engine_loop(replace(CONFIG, kept_sequences=kept_sequences))
    cached = 0
    for _ in range(2):
        for one in requests(seeded=seeded):
            # A conversation goes on: the first half of the prompt is asked for alone, then all of it.
            start = request("start", one.token_ids[: len(one.token_ids) // 2 or 1], greedy(3))
            run(engine, [start])
            engine.add(one)
            outputs = []
            while engine.has_work:
                outputs += [output for _, output in engine.step() if isinstance(output, StepOutput)]
            assert [token for output in outputs for token in output.token_ids] == expected[one.request_id]
            cached += outputs[0].cached_tokens or 0
    assert (cached >= sum(LENGTHS) // 2) == (kept_sequences > 0)
