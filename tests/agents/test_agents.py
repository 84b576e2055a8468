"""Claude Code, Codex and OpenCode, as installed from their registry, finish a task with a tool against a local server.

With a history key, the second request of the first two has exactly the ids that the first answer was written in: the
engine finds all of them in its cache. Without one it does not, as the answer's text has other ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.conftest import HISTORY_KEY, AgentServer, StartAgentServer, run_agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]
PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
TASK = "What does hello.txt say?"


def documented(language: str, url: str) -> str:
    """The set-up that the documentation tells users to write, for a server at `url`."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1).replace("http://127.0.0.1:8000", url)


def run_claude_code(url: str, folder: Path, home: Path) -> str:
    settings = dict(re.findall(r"(ANTHROPIC_\w+)=(\S+)", documented("sh", url)))
    assert len(settings) == 4
    quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    environment = {"HOME": str(home), **settings, **quiet}
    command = ["claude", "-p", TASK, "--allowedTools", "Bash(cat:*)", "--output-format", "json"]
    report = json.loads(run_agent(command, folder=folder, environment=environment))
    assert (report["subtype"], report["num_turns"]) == ("success", 2)
    answer: str = report["result"]
    return answer


def run_codex(url: str, folder: Path, home: Path) -> str:
    (home / "config.toml").write_text(documented("toml", url))
    environment = {"HOME": str(home), "CODEX_HOME": str(home), "LOCAL_KEY": "test"}
    command = ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", TASK]
    return run_agent(command, folder=folder, environment=environment)


def run_opencode(url: str, folder: Path, home: Path) -> str:
    (folder / "opencode.json").write_text(documented("json", url))
    environment = {"HOME": str(home), "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return run_agent(["opencode", "run", TASK], folder=folder, environment=environment)


def finish_task(
    run: Callable[[str, Path, Path], str], server: AgentServer, path: str, folder: Path, home: Path
) -> tuple[int, int]:
    """Run the task; return how many ids of its first request and answer the second shared, and how many it could."""
    home.mkdir()
    assert "the secret word is pelican" in run(server.url, folder, home)
    first, second = server.turns(path)[-2:]
    # An engine never computes the answer's last token, the end of the turn.
    return second.cached_tokens, first.prompt_tokens + first.completion_tokens - 1


@pytest.mark.parametrize(
    ("run", "path", "tool", "parameter"),
    [
        pytest.param(run_claude_code, "/v1/messages", "Bash", "command", id="claude-code"),
        pytest.param(run_codex, "/v1/responses", "exec_command", "cmd", id="codex"),
    ],
)
def test_an_agent_finishes_a_task_and_brings_the_answers_ids_back(
    run: Callable[[str, Path, Path], str],
    path: str,
    tool: str,
    parameter: str,
    start_agent_server: StartAgentServer,
    workspace: Path,
    tmp_path: Path,
) -> None:
    keyed = start_agent_server("keyed", "--history-key", HISTORY_KEY, tool=tool, parameter=parameter)
    cached, possible = finish_task(run, keyed, path, workspace, tmp_path / "keyed_home")
    assert cached == possible
    plain = start_agent_server("plain", tool=tool, parameter=parameter)
    cached, possible = finish_task(run, plain, path, workspace, tmp_path / "plain_home")
    assert cached < possible


def test_opencode_finishes_a_task(start_agent_server: StartAgentServer, workspace: Path, tmp_path: Path) -> None:
    server = start_agent_server("opencode", tool="bash", parameter="command")
    finish_task(run_opencode, server, "/v1/chat/completions", workspace, tmp_path / "home")
