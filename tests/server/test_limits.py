"""Limits of one client."""

from __future__ import annotations

import pytest

from deepinfer.server.errors import HttpError
from deepinfer.server.limits import ClientLimits


class Clock:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def admitted(limits: ClientLimits, client: str) -> bool:
    try:
        with limits.admit(client):
            return True
    except HttpError as error:
        assert error.status_code == 429 and int(error.headers["retry-after"]) >= 1
        return False


def test_a_bucket_empties_and_fills_evenly() -> None:
    clock = Clock()
    limits = ClientLimits(requests_per_minute=3, clock=clock)
    assert [admitted(limits, "a") for _ in range(5)] == [True, True, True, False, False]
    assert admitted(limits, "b")
    clock.now += 20
    assert [admitted(limits, "a") for _ in range(2)] == [True, False]
    clock.now += 3600
    assert [admitted(limits, "a") for _ in range(4)] == [True, True, True, False]


def test_the_wait_is_told() -> None:
    clock = Clock()
    limits = ClientLimits(requests_per_minute=2, clock=clock)
    for _ in range(2):
        assert admitted(limits, "a")
    clock.now += 10
    with pytest.raises(HttpError) as caught, limits.admit("a"):
        raise AssertionError("must not get here")
    assert caught.value.headers["retry-after"] == "20"
    clock.now += 20
    assert admitted(limits, "a")


def test_requests_at_a_time_are_counted_per_client_and_freed_by_failures() -> None:
    limits = ClientLimits(concurrent_requests=1)
    with pytest.raises(RuntimeError), limits.admit("a"):
        assert not admitted(limits, "a")
        assert admitted(limits, "b")
        raise RuntimeError
    assert admitted(limits, "a")


def test_no_limits_are_the_default() -> None:
    limits = ClientLimits()
    with limits.admit("a"):
        assert all(admitted(limits, "a") for _ in range(1000))
