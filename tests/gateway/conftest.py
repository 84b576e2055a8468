"""Gateways and what stands behind them, as processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import deepinfer.demo
from tests.e2e.server_process import ServerProcess

StartServer = Callable[..., ServerProcess]

_RULES = """
[[rule]]
match = "never end"
output = "Talking.</think>{endless}"
delay_seconds = 0.01

[[rule]]
match = "two calls"
output = "Twice.</think>{calls}"

[[rule]]
match = "in emoji"
output = "🙂 thinks.</think>🙂 日本語 🏳️‍🌈"
tokens_per_step = 3
"""
_CALL = """<｜DSML｜ invoke name=\\"get_weather\\">
<｜DSML｜ parameter name=\\"city\\" string=\\"true\\">Oslo</｜DSML｜ parameter>
</｜DSML｜ invoke>
""".replace("\n", "\\n")


@pytest.fixture(scope="session")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripted upstreams answer: the shipped example, and a few rules before it."""
    example = Path(deepinfer.demo.__file__).with_name("weather.toml").read_text(encoding="utf-8")
    calls = f"\\n\\n<｜DSML｜ calls>\\n{_CALL * 2}</｜DSML｜ calls>"
    path = tmp_path_factory.mktemp("script") / "rules.toml"
    path.write_text(_RULES.format(endless="and so on " * 5000, calls=calls) + example, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory, rules: Path) -> Iterator[ServerProcess]:
    """An upstream that replays the rules."""
    log = tmp_path_factory.mktemp("log") / "upstream.log"
    with ServerProcess(log, "--engine", "scripted", "--script", str(rules)) as server:
        yield server


@pytest.fixture(scope="session")
def gateway_to_scripted(tmp_path_factory: pytest.TempPathFactory, scripted: ServerProcess) -> Iterator[ServerProcess]:
    """A gateway in front of it."""
    log = tmp_path_factory.mktemp("log") / "gateway.log"
    with ServerProcess(log, "--engine", "remote", "--upstream", scripted.url) as server:
        yield server


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An upstream that runs the embedded model."""
    with ServerProcess(tmp_path_factory.mktemp("log") / "native.log") as server:
        yield server


@pytest.fixture(scope="session")
def gateway_to_native(tmp_path_factory: pytest.TempPathFactory, native: ServerProcess) -> Iterator[ServerProcess]:
    """A gateway in front of it."""
    log = tmp_path_factory.mktemp("log") / "gateway.log"
    with ServerProcess(log, "--engine", "remote", "--upstream", native.url) as server:
        yield server


@pytest.fixture
def start_upstream(tmp_path: Path, rules: Path) -> Iterator[StartServer]:
    """Starts scripted servers with flags of one's own; they end with the test."""
    with ExitStack() as stack:
        names = iter(range(100))

        def start(*flags: str) -> ServerProcess:
            log = tmp_path / f"upstream{next(names)}.log"
            return stack.enter_context(ServerProcess(log, "--engine", "scripted", "--script", str(rules), *flags))

        yield start


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartServer]:
    """Starts gateways in front of servers; they end with the test."""
    with ExitStack() as stack:
        names = iter(range(100))

        def start(*upstreams: ServerProcess, flags: tuple[str, ...] = ()) -> ServerProcess:
            addresses = [word for upstream in upstreams for word in ("--upstream", upstream.url)]
            log = tmp_path / f"gateway{next(names)}.log"
            return stack.enter_context(ServerProcess(log, "--engine", "remote", *addresses, *flags))

        yield start
