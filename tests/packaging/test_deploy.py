"""What deploy/ and its page say fits the server and the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import deepinfer.demo
from deepinfer.setting_sources import resolve, unknown_variables
from deepinfer.settings import ServeSettings
from tests.e2e.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "deepinfer.service").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
DEFAULTS = ServeSettings()
MEBIBYTE = 1024 * 1024


def copied() -> Iterator[Path]:
    """What the image is built from."""
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        yield from (ROOT / name for name in line.split()[:-1])


def test_all_that_is_copied_is_tracked() -> None:
    names = [str(path.relative_to(ROOT)) for path in copied()]
    listed = subprocess.run(["git", "ls-files", "--error-unmatch", *names], cwd=ROOT, capture_output=True, check=False)
    assert names and listed.returncode == 0, listed.stderr


def test_all_that_both_packages_are_built_from_is_copied() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    sdist = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    needed = {"Cargo.toml", "Cargo.lock", *workspace["members"], *sdist["sdist"]["only-include"]}
    folders = [path for path in copied() if path.is_dir()]
    # A link needs what it leads to.
    links = [path.resolve() for folder in folders for path in folder.rglob("*") if path.is_symlink()]
    found = set(copied())
    assert {ROOT / name for name in needed} <= found
    assert links and all(found & {link, *link.parents} for link in links)


def test_the_check_of_the_container_tells_a_server_from_none(tmp_path: Path) -> None:
    found = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    program, *arguments = json.loads(found[1])
    assert program == "/opt/deepinfer/bin/python"

    def check() -> int:
        port = server.address[1]
        variables = {**os.environ, "DEEPINFER_PORT": str(port)}
        return subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, check=False).returncode

    script = Path(deepinfer.demo.__file__).with_name("weather.toml")
    with ServerProcess(tmp_path / "log", "--engine", "scripted", "--script", str(script)) as server:
        assert check() == 0
        server.stop()
        assert check() != 0


@pytest.mark.parametrize("text", [UNIT, DOCKERFILE, PAGE], ids=["unit", "image", "page"])
def test_variables_are_settings(text: str) -> None:
    names = set(re.findall(r"\bDEEPINFER_[A-Z_]+", text))
    assert names and list(unknown_variables(dict.fromkeys(names, ""))) == []


def test_the_example_of_settings_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"deepinfer\.toml <<'END'\n(.*?)^END$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "deepinfer.toml"
    path.write_text(example, encoding="utf-8")
    assert resolve({}, {}, file=str(path)).model_alias == ("claude-*",)


def test_answers_may_finish_before_a_stop_becomes_a_kill() -> None:
    patience = re.findall(r"(?:TimeoutStopSec=|--stop-timeout |terminationGracePeriodSeconds: )(\d+)", UNIT + PAGE)
    assert len(patience) == 4
    # Ended answers have five seconds more to reach their clients; then engine and store stop.
    assert min(map(int, patience)) >= DEFAULTS.shutdown_seconds + 10


def test_proxies_let_the_longest_bodies_through() -> None:
    sizes = re.findall(r"(?:client_max_body_size|max_size) (\d+)(?:m;|MiB)", PAGE)
    assert [int(size) * MEBIBYTE for size in sizes] == [DEFAULTS.max_body_bytes] * 2
