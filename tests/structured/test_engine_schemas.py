"""Generated requests on a model with random weights, the worst there is: what it finishes is what was asked for.

`make test-structured-long` runs many more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from deepinfer.backends.native import NativeEngine
from deepinfer.config import EngineConfig
from deepinfer.model.presets import embedded
from tests.structured.asking import answer, asked, check, is_finished
from tests.structured.support import full_vocabulary

# All kinds, protocols and settings of thinking twice.
COUNT = 60


@pytest.fixture
async def engine() -> AsyncIterator[NativeEngine]:
    native = NativeEngine(EngineConfig(), embedded(), vocabulary=full_vocabulary)
    await native.start()
    yield native
    await native.stop()


@pytest.mark.timeout(600)
async def test_answers_keep_to_what_was_asked_for(engine: NativeEngine) -> None:
    requests = [asked(number) for number in range(COUNT)]
    answers = await asyncio.gather(
        *[answer(engine, one, name=str(number), seed=number) for number, one in enumerate(requests)]
    )
    finished = [(one, whole) for one, whole in zip(requests, answers, strict=True) if is_finished(one, whole)]
    assert len(finished) >= 0.95 * COUNT
    for one, whole in finished:
        check(one, whole)
