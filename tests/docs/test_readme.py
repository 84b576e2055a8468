"""The README's examples, run as they stand against servers of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def block(language: str) -> str:
    """The README's one block in `language` about a request."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return next(text for text in blocks if language != "sh" or ADDRESS in text)


def test_the_curl_example_is_answered_in_the_form_shown(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "log") as server:
        command = block("sh").replace(ADDRESS, server.url)
        answered = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60)
    found, shown = json.loads(answered.stdout), json.loads(block("json"))
    assert found["usage"] == shown["usage"]
    assert shape(found) == shape(shown)


def shape(value: object) -> object:
    """The keys of a JSON value at every level, without the values."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


def test_the_client_example_prints_what_is_shown(tmp_path: Path) -> None:
    script = ROOT / "deepinfer" / "demo" / "weather.toml"
    with ServerProcess(tmp_path / "log", "--engine", "scripted", "--script", str(script)) as server:
        program = block("python").replace(ADDRESS, server.url)
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert printed.stdout.decode() == block("text")
