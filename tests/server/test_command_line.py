"""The command line: help, version, and mistakes that say what to do next."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deepinfer.cli import build_parser
from deepinfer.launch import KEY_VARIABLE, ServeArguments, resolve_config

RULES = '[[rule]]\noutput = "x"\n'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepinfer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def resolve(*flags: str, environment: dict[str, str] | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    arguments = ServeArguments(**vars(build_parser().parse_args(["serve", *flags])))
    config = resolve_config(arguments, environment or {})
    return config.model_names, config.api_keys


def test_help_tells_commands_and_flags() -> None:
    assert "serve" in run("--help").stdout
    text = run("serve", "--help").stdout
    for flag in ("--host", "--port", "--api-key", "--script", "--served-model-name", "--shutdown-seconds", "examples:"):
        assert flag in text


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
        (["--port", "eighty"], "invalid int value"),
        (["--max-body-bytes", "0"], "--max-body-bytes is 0; it must be at least 1"),
        (["--context-length", "1"], "--context-length is 1; it must be at least 2"),
        (["--shutdown-seconds", "nan"], "--shutdown-seconds is nan"),
        (["--served-model-name", " "], "--served-model-name is empty"),
        (["--frobnicate"], "unrecognized arguments"),
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


def test_names_and_keys_are_resolved_once() -> None:
    assert resolve() == (("deepinfer-tiny",), ())
    assert resolve("--served-model-name", "a", "--served-model-name", "b", "--served-model-name", "a")[0] == ("a", "b")
    environment = {KEY_VARIABLE: "one, two,"}
    assert resolve(environment=environment)[1] == ("one", "two")
    assert resolve("--api-key", "three", environment=environment)[1] == ("three",)
