"""Settings from flags, environment and file, in that order."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepinfer.cli import build_parser
from deepinfer.launch import resolve_config
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.setting_sources import resolve, unknown_variables
from deepinfer.settings import ServeSettings

HEX = "00112233445566778899aabbccddeeff"


def settings(*flags: str, environment: dict[str, str] | None = None) -> ServeSettings:
    parsed = vars(build_parser().parse_args(["serve", *flags]))
    del parsed["command"]
    return resolve(parsed, environment or {}, file=parsed.pop("config", None))


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "deepinfer.toml"
    file.write_text('host = "file"\nport = 1\nmax_waiting = 1\nserved_model_name = ["a", "b"]\nlog_prompts = true\n')
    environment = {"DEEPINFER_PORT": "2", "DEEPINFER_MAX_WAITING": "2", "DEEPINFER_CONFIG": str(file)}
    found = settings("--max-waiting", "3", environment=environment)
    assert (found.host, found.port, found.max_waiting, found.max_body_bytes) == ("file", 2, 3, 32 * 1024 * 1024)
    assert (found.served_model_name, found.log_prompts) == (("a", "b"), True)
    assert settings("--no-log-prompts", environment=environment).log_prompts is False
    assert settings("--config", str(file)).port == 1


def test_lists_come_from_repeated_flags_and_from_commas() -> None:
    assert settings("--api-key", "one", "--api-key", "two").api_key == ("one", "two")
    assert settings(environment={"DEEPINFER_API_KEY": "one, two,"}).api_key == ("one", "two")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("ports = 1", "'ports' is no setting"),
        ("port = ", "not valid TOML"),
        ('port = "x"', "port is 'x'; it must be a whole number"),
        ("port = 1.5", "it must be a whole number"),
        ("port = true", "it must be a whole number"),
        ("host = 5", "it must be a text"),
        ("served_model_name = [1]", "it must be a list of texts"),
        ('log_prompts = "perhaps"', "it must be true or false"),
        ('log_level = "loud"', "it must be one of debug, info, warning, error"),
        ("shutdown_seconds = [1]", "it must be a number"),
    ],
)
def test_a_faulty_file_is_refused_by_name(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "deepinfer.toml"
    file.write_text(content)
    with pytest.raises((UsageError, CommandError), match=r"deepinfer\.toml") as caught:
        settings("--config", str(file))
    assert words in str(caught.value)


def test_a_faulty_variable_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="DEEPINFER_PORT is 'x'; it must be a whole number"):
        settings(environment={"DEEPINFER_PORT": "x"})
    assert unknown_variables({"DEEPINFER_PROT": "1", "DEEPINFER_PORT": "1", "PATH": ""}) == ["DEEPINFER_PROT"]


def test_no_secret_is_shown() -> None:
    found = settings("--api-key", "secret-key", "--history-key", HEX)
    assert "secret-key" not in repr(found) and HEX not in repr(found)
    config = resolve_config(found)
    assert "secret-key" not in repr(config) and config.history_key is not None
    assert repr(config.history_key) not in repr(config)


def test_a_history_key_is_hex_or_a_file_of_hex(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(HEX + "\n")
    for given in (HEX, str(file)):
        assert resolve_config(settings("--history-key", given)).history_key == bytes.fromhex(HEX)
    file.write_text("not hex")
    with pytest.raises(CommandError, match="hex digits"):
        resolve_config(settings("--history-key", str(file)))


def test_names_and_aliases_are_resolved_once() -> None:
    config = resolve_config(settings(*(f"--served-model-name={name}" for name in "aba")))
    assert config.model_names == ("a", "b")
    config = resolve_config(settings("--model-alias", "claude-*", "--model-alias", "gpt=deepinfer-tiny"))
    assert config.model_aliases == (("claude-*", "deepinfer-tiny"), ("gpt", "deepinfer-tiny"))
