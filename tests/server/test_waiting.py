"""A limit for many waits: each has its own time, and whoever ends the task from outside is heard."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from deepinfer.server.waiting import WaitLimit


@pytest.fixture
async def limit() -> AsyncIterator[WaitLimit]:
    limit = WaitLimit(0.5)
    yield limit
    limit.close()


async def test_a_wait_that_is_too_long_is_ended(limit: WaitLimit) -> None:
    task = asyncio.current_task()
    assert task is not None
    for _ in range(3):
        with pytest.raises(TimeoutError):
            with limit:
                await asyncio.sleep(10)
        assert task.cancelling() == 0


async def test_each_wait_has_its_own_time(limit: WaitLimit) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(8):
        with limit:
            await asyncio.sleep(0.1)
    # Between waits, time counts for nothing.
    await asyncio.sleep(0.6)
    start = loop.time()
    with pytest.raises(TimeoutError):
        with limit:
            await asyncio.sleep(10)
    assert loop.time() - start >= 0.49


async def test_many_waits_take_one_timer(limit: WaitLimit, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[Any] = []
    call_at = loop.call_at

    def counted(*arguments: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(arguments)
        return call_at(*arguments, **named)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(100):
        with limit:
            pass
    assert len(timers) == 1


async def test_whoever_ends_the_task_is_heard(limit: WaitLimit) -> None:
    async def work() -> None:
        with limit:
            await asyncio.sleep(10)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # At the same moment as the limit.
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    limit._deadline = 0.0
    limit._look()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_raised_within_stays(limit: WaitLimit) -> None:
    with pytest.raises(ZeroDivisionError):
        with limit:
            raise ZeroDivisionError
    with limit:
        await asyncio.sleep(0)


async def test_a_limit_that_is_closed_holds_nothing() -> None:
    limit = WaitLimit(3600)
    with limit:
        pass
    limit.close()
    gone = weakref.ref(limit)
    del limit
    gc.collect()
    assert gone() is None
