"""What the tests against a real vLLM share: one vLLM, a gateway before it, and a relay between them that remembers.

Not among the tests of `make test`: `make test-vllm` installs vLLM first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess
from tests.vllm.relay import Relay
from tests.vllm.tiny_model import write_tiny_model
from tests.vllm.vllm_process import VllmProcess

# Of the tokenizer that vLLM's model has.
FORMAT = "v4"
HISTORY_KEY = "00112233445566778899aabbccddeeff"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that kill vLLM last, as another start takes a minute."""
    items.sort(key=lambda item: item.path.name == "test_death.py" and item.path.parent == Path(__file__).parent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what vLLM said last with a test that failed."""
    report = yield
    server = getattr(item, "funcargs", {}).get("vllm")
    if report.failed and isinstance(server, VllmProcess):
        report.sections.append(("end of vLLM's log", server.end_of_log()))
    return report


@pytest.fixture(scope="session")
def vllm(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """vLLM with a tiny model."""
    folder = tmp_path_factory.mktemp("model")
    write_tiny_model(folder, repository / "recipe" / "data" / "tokenizer_v4.json")
    with VllmProcess(folder, tmp_path_factory.mktemp("vllm")) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(vllm: VllmProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A gateway before vLLM."""
    with start_gateway(vllm.url, tmp_path_factory.mktemp("gateway") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def relay(vllm: VllmProcess) -> Iterator[Relay]:
    """Stands between the gateway `watched` and vLLM, and remembers what passes."""
    with Relay(vllm.url) as relay:
        yield relay


@pytest.fixture(scope="session")
def watched(relay: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A gateway before the relay."""
    with start_gateway(relay.url, tmp_path_factory.mktemp("watched") / "log") as server:
        yield server


def start_gateway(upstream: str, log: Path, *flags: str) -> ServerProcess:
    """Start a gateway that serves vLLM's model under the name of `chat_body`."""
    return ServerProcess(
        log,
        *("--engine", "remote", "--upstream", upstream, "--prompt-format", FORMAT),
        *("--served-model-name", "deepinfer-tiny", "--history-key", HISTORY_KEY, *flags),
    )
