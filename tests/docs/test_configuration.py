"""The page of settings names all of them, with their defaults, and its example works."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from deepinfer.setting_sources import resolve
from deepinfer.settings import ServeSettings, about

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", PAGE, re.MULTILINE)
MEBIBYTE = 1024 * 1024


def words_of(default: object) -> str:
    """A default as the page writes it."""
    match default:
        case bool():
            return "yes" if default else "no"
        case int() if default >= MEBIBYTE:
            return f"{default // MEBIBYTE} MiB"
        case float():
            return f"{default:g}"
    return str(default)


def test_every_setting_stands_in_the_table_with_its_default() -> None:
    told = [name for names, _ in ROWS for name in re.findall(r"`(\w+)`", names)]
    assert told == [setting.name for setting in fields(ServeSettings)]
    for names, defaults in ROWS:
        for name in re.findall(r"`(\w+)`", names):
            (setting,) = (setting for setting in fields(ServeSettings) if setting.name == name)
            if setting.default not in (None, ()) and about(setting).default_words is None:
                assert words_of(setting.default) in defaults


def test_the_example_is_a_valid_file(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "deepinfer.toml"
    path.write_text(example, encoding="utf-8")
    found = resolve({}, {}, file=str(path))
    assert found.served_model_name == ("deepseek-chat", "deepseek-reasoner")
    assert found.concurrent_requests == 16
