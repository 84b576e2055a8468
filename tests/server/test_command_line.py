"""The command line: help, version, and mistakes that say what to do next."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from deepinfer.settings import Group, ServeSettings, flag_of

RULES = '[[rule]]\noutput = "x"\n'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepinfer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_help_tells_commands_and_flags() -> None:
    assert "serve" in run("--help").stdout
    text = run("serve", "--help").stdout
    for setting in fields(ServeSettings):
        assert flag_of(setting.name) in text
    for words in ("--config", "examples:", "DEEPINFER_MAX_WAITING", *(f"{group}:" for group in Group)):
        assert words in text


def test_version_is_told() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("deepinfer ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--engine", "warp"], "use one of: native, scripted"),
        (["--engine", "scripted"], "needs --script FILE"),
        (["--script", "x.toml"], "add it, or leave --script out"),
        (["--model", "deepseek-chat"], "use --served-model-name"),
        (["--port", "70000"], "between 0 and 65535"),
        (["--port", "eighty"], "--port is 'eighty'; it must be a whole number"),
        (["--max-body-bytes", "0"], "--max-body-bytes is 0; it must be at least 1"),
        (["--context-length", "2000000"], "--context-length is 2000000; the model ends at 1048576 positions"),
        (["--context-length", "1"], "--context-length is 1; it must be at least 2"),
        (["--shutdown-seconds", "nan"], "--shutdown-seconds is nan"),
        (["--served-model-name", " "], "--served-model-name is empty"),
        (["--frobnicate"], "unrecognized arguments"),
        (["--prompt-format", "v3"], "one of v4, v4.1"),
        (["--keep-alive-seconds", "0"], "--keep-alive-seconds is 0.0"),
        (["--model-alias", "claude-*=gpt"], "which is not served"),
        (["--model-alias", "a*b"], "a beginning and *"),
        (["--history-key", "00ff"], "--history-key has 2 bytes"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(flags: list[str], words: str) -> None:
    result = run("serve", *flags)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_script_file_ends_with_status_1(tmp_path: Path) -> None:
    result = run("serve", "--engine", "scripted", "--script", str(tmp_path / "nowhere.toml"))
    assert result.returncode == 1
    assert "nowhere.toml" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_in_use_ends_with_status_1(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--engine", "scripted", "--script", str(rules), "--port", str(port))
    assert result.returncode == 1
    assert f"127.0.0.1:{port}" in result.stderr and "pass another --port" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_package_says_what_to_install() -> None:
    program = "import sys; sys.modules['torch'] = None; from deepinfer.cli import main; sys.exit(main(['serve']))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert result.returncode == 1
    assert "torch" in result.stderr and 'pip install "deepinfer[serve]"' in result.stderr
    assert "Traceback" not in result.stderr


def test_the_scripted_engine_and_the_server_need_no_torch() -> None:
    program = (
        "import sys, deepinfer.launch, deepinfer.offline.script_file, deepinfer.backends.scripted; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=50, check=False).returncode == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--api-key-file", "nowhere.keys"], "nowhere.keys"),
        (["--history-key", "nowhere.key"], "openssl rand -hex 32"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_missing_file_ends_with_status_1(flags: list[str], words: str) -> None:
    result = run("serve", *flags)
    assert result.returncode == 1
    assert words in result.stderr and "Traceback" not in result.stderr


def test_the_doctor_finds_nothing_wrong_with_the_defaults() -> None:
    result = run("doctor", "--port", "0")
    assert result.returncode == 0, result.stdout
    assert "deepinfer serve can start" in result.stdout and "fail" not in result.stdout


def test_the_doctor_says_what_to_do(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one")
    keys.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("doctor", "--port", port, "--api-key-file", str(keys), "--log-prompts")
    assert result.returncode == 1
    assert "pass another --port" in result.stdout
    assert f"chmod 600 {keys}" in result.stdout
    assert "leave out --log-prompts" in result.stdout
    open_to_all = run("doctor", "--port", "0", "--host", "0.0.0.0")
    assert open_to_all.returncode == 0 and "pass --api-key-file" in open_to_all.stdout


def test_the_doctor_works_without_the_packages_it_looks_for() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; sys.modules['uvicorn'] = None; "
        "from deepinfer.cli import main; sys.exit(main(['doctor', '--port', '0']))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert result.returncode == 1
    assert "torch cannot be used" in result.stdout and 'pip install "deepinfer[serve]"' in result.stdout
    assert "Traceback" not in result.stderr
