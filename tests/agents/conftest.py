"""What the agents' tests share: their commands, a script that gives them a task's answers, servers that replay it.

Not among the tests of `make test`: `make test-agents` installs the agents first.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess

COMMANDS = Path(__file__).with_name("node_modules") / ".bin"
MODEL = "DeepSeek-V4.1-Flash"
HISTORY_KEY = "00112233445566778899aabbccddeeff"
SECRET = "The secret word is pelican."

# The answers to a task: look into the file, then say what it says. The first is written in other tokens than the
# tokenizer makes of its text, in its reasoning, its words and its call.
_SCRIPT = """
[[rule]]
match = "secret word is pelican"
output = "The file says it.</think>The file says that the secret word is pelican."

[[rule]]
match = "hello\\\\.txt"
in = "whole"
output = [
    "I read the fi", "le with a to", "ol.</think>I will lo", "ok into it.", "\\n\\n<｜DSML｜ calls>\\n",
    "<｜DSML｜ invoke name=\\"{tool}\\">\\n", "<｜DSML｜ parameter name=\\"{parameter}\\" string=\\"true\\">",
    "cat he", "llo.t", "xt", "</｜DSML｜ parameter>\\n", "</｜DSML｜ invoke>\\n", "</｜DSML｜ calls>",
]

[[rule]]
output = "A side question.</think>Hello."
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """Token counts of one answered request, from the server's log."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class AgentServer:
    """A server whose scripted answers call `tool` with the command in `parameter`, and what it counted."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.url = server.url

    def turns(self, path: str) -> list[Turn]:
        """The requests to `path` that were answered, in order."""
        lines = [line for line in self._server.log.splitlines() if f"path={path} status=200" in line]
        return [Turn(*(int(_count(line, name)) for name in Turn.__slots__)) for line in lines]


def _count(line: str, name: str) -> str:
    found = re.search(rf" {name}=(\d+)", line)
    assert found is not None, f"{name} is not in the log line: {line}"
    return found.group(1)


StartAgentServer = Callable[..., AgentServer]


@pytest.fixture
def start_agent_server(tmp_path: Path) -> Iterator[StartAgentServer]:
    """Starts servers; they end with the test."""
    with ExitStack() as stack:

        def start(name: str, *flags: str, tool: str, parameter: str) -> AgentServer:
            script = tmp_path / f"{name}.toml"
            script.write_text(_SCRIPT.format(tool=tool, parameter=parameter), encoding="utf-8")
            flags = ("--engine", "scripted", "--script", str(script), "--served-model-name", MODEL, *flags)
            return AgentServer(stack.enter_context(ServerProcess(tmp_path / f"{name}.log", *flags)))

        yield start


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the file that the task is about."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "hello.txt").write_text(SECRET + "\n")
    return folder


def run_agent(command: list[str], *, folder: Path, environment: Mapping[str, str]) -> str:
    """Run an agent's command in `folder` and return what it prints. Nothing of the caller's environment but PATH."""
    program = COMMANDS / command[0]
    assert program.exists(), f"{program} is missing: run `make test-agents`"
    done = subprocess.run(
        [str(program), *command[1:]],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
