"""The page about the gateway: its commands run, its file is valid, and it knows every error."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from deepinfer.setting_sources import resolve
from tests.e2e.server_process import ServerProcess, chat_body

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_commands_make_a_gateway(tmp_path: Path) -> None:
    with ExitStack() as stack:
        addresses: dict[str, str] = {}
        server = None
        for number, line in enumerate(block("sh").splitlines()):
            command, port = line.removeprefix("deepinfer serve ").rsplit(" --port ", 1)
            flags = [addresses.get(word, word) for word in command.split()]
            flags = [str(ROOT / word) if word.endswith(".toml") else word for word in flags]
            server = stack.enter_context(ServerProcess(tmp_path / f"{number}.log", *flags))
            addresses[f"http://127.0.0.1:{port}"] = server.url
        assert server is not None
        answer = server.http.post("/v1/chat/completions", json=chat_body("Hello")).json()
        assert answer["choices"][0]["message"]["content"] == "Hello! Ask me about the weather in Paris."


def test_the_example_is_a_valid_file(tmp_path: Path) -> None:
    path = tmp_path / "deepinfer.toml"
    path.write_text(block("toml"), encoding="utf-8")
    found = resolve({}, {}, file=str(path))
    assert (found.engine, len(found.upstream), found.upstream_first_token_seconds) == ("remote", 2, 300.0)


def test_every_error_of_the_gateway_is_told() -> None:
    sources = (ROOT / "deepinfer" / "backends" / "remote").rglob("*.py")
    codes = {
        code
        for path in sources
        for code in re.findall(r'"(upstream_\w+ed|upstream_timeout|upstream_unreachable)"', path.read_text())
    }
    assert len(codes) == 4
    assert all(f"`{code}`" in PAGE for code in codes)
