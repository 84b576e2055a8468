"""API keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from deepinfer.server.access import ANYONE, KeyFileError, Keyring
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
    Keyring(KEYS).identify(Headers(headers))


def test_a_key_beyond_ascii_is_compared_by_its_bytes() -> None:
    Keyring(KEYS).identify(Headers(raw=[(b"x-api-key", "schlüssel".encode())]))


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
        Keyring(KEYS).identify(Headers(headers))
    assert caught.value.status_code == 401
    assert caught.value.code == "invalid_api_key"


def test_without_keys_everyone_passes() -> None:
    assert Keyring(()).identify(Headers({})) == ANYONE


def key(value: str) -> Headers:
    return Headers({"x-api-key": value})


def test_each_key_has_its_own_name_that_tells_nothing_of_it() -> None:
    ring = Keyring(KEYS)
    names = [ring.identify(key("first-key")), ring.identify(Headers(raw=[(b"x-api-key", "schlüssel".encode())]))]
    assert len(set(names)) == 2 and "first-key" not in "".join(names)
    assert ring.identify(Headers({"authorization": "Bearer first-key"})) == names[0]


class Clock:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys", Clock()
    path.write_text("# comment\n\n one \ntwo\n")
    ring = Keyring(["given"], path, clock=clock)
    assert {ring.identify(key(name)) for name in ("one", "two", "given")} != {ANYONE}
    path.write_text("three\n")
    ring.identify(key("one"))  # within the second in which the file is not looked at
    clock.now += 2
    ring.identify(key("three"))
    ring.identify(key("given"))
    with pytest.raises(HttpError):
        ring.identify(key("one"))


@pytest.mark.parametrize("becomes", ["", "# nothing\n", None])
def test_a_key_file_that_goes_bad_lets_nobody_else_in(tmp_path: Path, becomes: str | None) -> None:
    path, clock = tmp_path / "keys", Clock()
    path.write_text("one\n")
    ring = Keyring([], path, clock=clock)
    path.unlink() if becomes is None else path.write_text(becomes)
    clock.now += 2
    ring.identify(key("one"))
    with pytest.raises(HttpError):
        ring.identify(Headers({}))


@pytest.mark.parametrize("content", ["", "\n# only words\n"])
def test_a_key_file_without_keys_is_refused_at_the_start(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(KeyFileError, match="there is no key"):
        Keyring([], path)
    with pytest.raises(KeyFileError, match="nowhere"):
        Keyring([], tmp_path / "nowhere")
