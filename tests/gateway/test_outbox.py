"""What waits for a reader: nothing lost, in order, as one output; and the sender is told to wait."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepinfer.backends.outbox import Outbox
from deepinfer.backends.stream import OutboxStream
from deepinfer.core import FinishReason, StepOutput, TokenLogprob
from deepinfer.errors import EngineError


@given(groups=st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=4), max_size=5))
def test_outputs_that_waited_come_as_one(groups: list[list[list[int]]]) -> None:
    async def run() -> None:
        outbox = Outbox()
        for group in groups:
            for ids in group:
                outbox.put(
                    StepOutput(
                        token_ids=tuple(ids),
                        logprobs=tuple(TokenLogprob(-float(token_id)) for token_id in ids),
                        cached_tokens=len(ids) or None,
                    )
                )
            output = await outbox.get()
            assert isinstance(output, StepOutput)
            ids = [token_id for part in group for token_id in part]
            assert output.token_ids == tuple(ids)
            assert [entry.logprob for entry in output.logprobs or ()] == [-float(token_id) for token_id in ids]
            told = [len(part) for part in group if part]
            assert output.cached_tokens == (told[-1] if told else None)

    asyncio.run(run())


async def test_texts_are_joined_and_the_end_stays_the_end() -> None:
    outbox = Outbox()
    outbox.put(StepOutput(token_ids=(), text="a", text_tokens=1))
    outbox.put(StepOutput(token_ids=(), text="bc", text_tokens=2))
    outbox.put(StepOutput(token_ids=(), finish_reason=FinishReason.LENGTH))
    assert await outbox.get() == StepOutput(token_ids=(), text="abc", text_tokens=3, finish_reason=FinishReason.LENGTH)


async def test_an_error_comes_after_what_waits_and_again() -> None:
    outbox = Outbox()
    outbox.put(StepOutput(token_ids=(1,)))
    outbox.fail(EngineError("gone", code="upstream_failed"))
    stream = OutboxStream(outbox, abandon=lambda: pytest.fail("an ended stream was abandoned"))
    assert (await anext(stream)).token_ids == (1,)
    with pytest.raises(EngineError, match="gone"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await stream.aclose()


async def test_the_sender_may_go_on_once_the_reader_has_taken_all() -> None:
    outbox, told = Outbox(), []
    outbox.on_drained = lambda: told.append(True)
    outbox.put(StepOutput(token_ids=(1,)))
    await outbox.get()
    assert not told
    outbox.put(StepOutput(token_ids=(1,) * 2000))
    assert outbox.is_full
    await outbox.get()
    assert told == [True] and not outbox.is_full


async def test_a_wait_that_is_given_up_loses_nothing() -> None:
    outbox = Outbox()
    stream = OutboxStream(outbox, abandon=lambda: None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(stream)
    outbox.put(StepOutput(token_ids=(5,)))
    assert (await anext(stream)).token_ids == (5,)
