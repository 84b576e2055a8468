"""The one line per request."""

from __future__ import annotations

import pytest

from deepinfer.server.exchange import Exchange, choose_request_id
from deepinfer.server.logging import describe_exchange


def test_a_generation_is_told_in_one_line() -> None:
    exchange = Exchange(request_id="req_1", method="POST", path="/v1/chat/completions", status=200, model="m")
    exchange.prompt_tokens, exchange.cached_tokens = 12, 4
    exchange.count_tokens(3)
    exchange.first_token = 0.25
    exchange.finish_reason = "stop"
    assert describe_exchange(exchange, duration=1.5) == (
        "method=POST path=/v1/chat/completions status=200 model=m prompt_tokens=12 cached_tokens=4 "
        "completion_tokens=3 first_token_seconds=0.250 seconds=1.500 finish_reason=stop request_id=req_1"
    )


def test_what_is_not_known_is_left_out() -> None:
    exchange = Exchange(request_id="req_1", method="GET", path="/health", status=200)
    assert describe_exchange(exchange, duration=0) == (
        "method=GET path=/health status=200 seconds=0.000 request_id=req_1"
    )


@pytest.mark.parametrize("value", ["a b", "a\nb", 'a"b', "a=b\tc", "ü", "\x1b[31m", "x" * 1000 + "\n"])
def test_a_client_cannot_forge_a_pair_or_a_line(value: str) -> None:
    exchange = Exchange(request_id="req_1", method="GET", path=value, model=value)
    line = describe_exchange(exchange, duration=0)
    assert line.isascii() and line.isprintable()
    assert len(line) < 1000
    assert f"path={value} " not in line


@pytest.mark.parametrize("offered", ["abc-123", "req_0.1:2/3=", "x" * 128])
def test_a_sane_request_id_is_kept(offered: str) -> None:
    assert choose_request_id(offered) == offered


@pytest.mark.parametrize("offered", [None, "", "a b", "a\n", "x" * 129, "ü"])
def test_any_other_request_id_is_replaced(offered: str | None) -> None:
    made = choose_request_id(offered)
    assert made.startswith("req_") and made != choose_request_id(offered)
