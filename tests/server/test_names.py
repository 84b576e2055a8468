"""Names of models, their aliases and suffixes."""

from __future__ import annotations

import pytest

from deepinfer.server.names import ModelNames

NAMES = ModelNames(
    ("flash", "pro"), [("claude-*", "flash"), ("claude-opus*", "pro"), ("gpt", "pro"), ("odd[1]", "pro")]
)


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("flash", "flash"),
        ("flash[1m]", "flash"),
        ("claude-sonnet-5", "flash"),
        ("claude-opus-5[1m]", "pro"),
        ("gpt", "pro"),
        ("odd[1]", "pro"),
        ("gpt-5", None),
        ("claude", None),
        ("", None),
        ("[1m]", None),
        ("flash[1m][1m]", None),
        ("flash[1m]x", None),
        ("claude-" + "x" * 249, "flash"),
        ("claude-" + "x" * 250, None),
    ],
)
def test_a_name_stands_for_a_served_one(name: str, served: str | None) -> None:
    assert NAMES.find(name) == served
