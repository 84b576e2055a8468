"""A scripted server that logs its prompts, and the official clients of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.server_process import ServerProcess

MODEL = "deepinfer-tiny"

# What the model of these tests answers; the first rule that fits the newest message.
RULES = """
[[rule]]
match = "Lookup result"
output = "I have it.</think>Done with the lookup."

[[rule]]
match = "two cities"
output = '''
Both.</think>

<｜DSML｜ calls>
<｜DSML｜ invoke name="look">
<｜DSML｜ parameter name="city" string="true">Oslo</｜DSML｜ parameter>
</｜DSML｜ invoke>
<｜DSML｜ invoke name="ping">

</｜DSML｜ invoke>
</｜DSML｜ calls>'''

[[rule]]
match = "look it up"
output = '''
I look it up.</think>One moment.

<｜DSML｜ calls>
<｜DSML｜ invoke name="look">
<｜DSML｜ parameter name="city" string="true">Oslo</｜DSML｜ parameter>
</｜DSML｜ invoke>
</｜DSML｜ calls>'''

[[rule]]
match = "patch the file"
output = '''
A patch.</think>

<｜DSML｜ calls>
<｜DSML｜ invoke name="apply_patch">
<｜DSML｜ parameter name="input" string="true">*** Begin Patch
+ "quoted" line
*** End Patch</｜DSML｜ parameter>
</｜DSML｜ invoke>
</｜DSML｜ calls>'''

[[rule]]
match = "restate"
output = "Question: is asked.</think>The Question: what?"

[[rule]]
match = "colour as json"
output = 'A colour.</think>{"colour": "red"}'

[[rule]]
match = "emoji"
output = "思考🤔</think>Grüße 世界 🏳️\u200d🌈 naïve"

[[rule]]
match = "wait long"
output = "Waited.</think>Here."
delay_seconds = 0.5
tokens_per_step = 100

[[rule]]
match = "never end"
output = "Talking.</think>{endless}"
delay_seconds = 0.01

[[rule]]
match = "</think>$"
in = "whole"
output = "Plain answer."

[[rule]]
match = '"colour": "$'
in = "whole"
output = 'blue"}}'

[[rule]]
output = "Some thought.</think>An answer."
"""


class LoggingServer(ServerProcess):
    """A server whose log tells the prompts."""

    def prompts(self) -> list[str]:
        """Every prompt so far."""
        return [json.loads(text) for text in re.findall(r"prompt request_id=\S+ text=(.*)", self.log)]


@pytest.fixture(scope="session")
def rules_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("needs") / "rules.toml"
    path.write_text(RULES.replace("{endless}", "and so on " * 5000).replace("}}", "}"), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, rules_file: Path) -> Iterator[LoggingServer]:
    """A server with a context of 200,000 tokens, so that a prompt can be too long."""
    flags = ("--engine", "scripted", "--script", str(rules_file), "--log-prompts", "--keep-alive-seconds", "0.1")
    log = tmp_path_factory.mktemp("log") / "needs.log"
    with LoggingServer(log, *flags, "--context-length", "200000") as running:
        yield running


@pytest.fixture
def oa(server: LoggingServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def an(server: LoggingServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def prompt_of(server: LoggingServer) -> Callable[[Callable[[], object]], str]:
    """Runs a request and returns its prompt."""

    def run(request: Callable[[], object]) -> str:
        request()
        return server.prompts()[-1]

    return run
