"""Servers that the end-to-end tests share, and one to start with flags of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import deepinfer.demo
from tests.e2e.server_process import ServerProcess

StartServer = Callable[..., ServerProcess]

# What scripted servers answer in the tests: the shipped example, with rules for slow and long answers before it.
_SLOW_RULES = """
[[rule]]
match = "count slowly"
output = "Counting.</think>{numbers}"
delay_seconds = 0.02

[[rule]]
match = "never end"
output = "Talking.</think>{endless}"
delay_seconds = 0.01

[[rule]]
match = "flood"
output = "Flooding.</think>{endless}"
tokens_per_step = 1

[[rule]]
match = "fim▁hole"
in = "whole"
output = "x):\\n"

[[rule]]
match = "in emoji"
output = "🙂 日本語 🏳️‍🌈"

[[rule]]
match = "complete"
output = "one two three, STOP four"

[[rule]]
match = "be cut"
output = "Cut.</think>This answer was cut"
finish = "length"
"""


@pytest.fixture(scope="session")
def script_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rules of the scripted servers."""
    numbers = " ".join(str(number) for number in range(1, 21))
    endless = "and so on " * 20_000
    example = Path(deepinfer.demo.__file__).with_name("weather.toml").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("script") / "rules.toml"
    path.write_text(_SLOW_RULES.format(numbers=numbers, endless=endless) + example, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def scripted_server(tmp_path_factory: pytest.TempPathFactory, script_file: Path) -> Iterator[ServerProcess]:
    """A server that replays the rules."""
    log = tmp_path_factory.mktemp("log") / "scripted.log"
    with ServerProcess(log, "--engine", "scripted", "--script", str(script_file)) as server:
        yield server


@pytest.fixture(scope="session")
def native_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that runs the embedded model."""
    with ServerProcess(tmp_path_factory.mktemp("log") / "native.log") as server:
        yield server


@pytest.fixture
def start_server(tmp_path: Path, script_file: Path) -> Iterator[StartServer]:
    """Starts scripted servers with flags of one's own; they end with the test."""
    with ExitStack() as stack:

        def start(*flags: str) -> ServerProcess:
            flags = ("--engine", "scripted", "--script", str(script_file), *flags)
            return stack.enter_context(ServerProcess(tmp_path / "server.log", *flags))

        yield start
