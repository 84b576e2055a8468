"""API keys."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from deepinfer.server.access import check_access
from deepinfer.server.errors import HttpError

KEYS = ("first-key", "schlüssel")


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer first-key"},
        {"authorization": "bearer  first-key "},
        {"x-api-key": "first-key"},
        {"authorization": "Basic abc", "x-api-key": "first-key"},
        {"authorization": "Bearer first-key", "x-api-key": "wrong"},
    ],
)
def test_a_known_key_passes(headers: dict[str, str]) -> None:
    check_access(Headers(headers), KEYS)


def test_a_key_beyond_ascii_is_compared_by_its_bytes() -> None:
    check_access(Headers(raw=[(b"x-api-key", "schlüssel".encode())]), KEYS)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "no API key"),
        ({"authorization": "Bearer "}, "no API key"),
        ({"authorization": "first-key"}, "no API key"),
        ({"x-api-key": "first-ke"}, "not valid"),
        ({"authorization": "Bearer wrong", "x-api-key": "first-key"}, "not valid"),
    ],
)
def test_anything_else_is_a_401(headers: dict[str, str], words: str) -> None:
    with pytest.raises(HttpError, match=words) as caught:
        check_access(Headers(headers), KEYS)
    assert caught.value.status_code == 401
    assert caught.value.code == "invalid_api_key"


def test_without_keys_everyone_passes() -> None:
    check_access(Headers({}), ())
