"""`deepinfer bench gateway` and the soak, short, with the servers that they start; and the figures that they make."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deepinfer.bench import plot
from deepinfer.bench.affinity import Moves, moves
from deepinfer.mistakes import CommandError

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_bench_shows_what_it_measured(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"figures.{kind}" for kind in ("json", "png")}
    flags = ["--rate", "4", "--seconds", "3", "--rounds", "1", "--conversations", "8"]
    ran = run("deepinfer", "bench", "gateway", *flags, "--json", str(files["json"]), "--plot", str(files["png"]))
    assert (ran.returncode, ran.stderr.count("round 1 of 1")) == (0, 2), ran.stderr
    result = json.loads(files["json"].read_bytes())
    check_overhead(result["overhead"], ran.stdout)
    check_routing(result["routing"], ran.stdout)
    assert files["png"].read_bytes().startswith(b"\x89PNG") and files["png"].stat().st_size > 10_000


def check_overhead(overhead: dict[str, Any], printed: str) -> None:
    alone, through = overhead["alone"][0], overhead["gateway"][0]
    for way in (alone, through):
        assert way["failed"] == 0 and way["first_token"]["count"] > 0
        # Scripted upstreams take 20 ms a token.
        assert way["between_tokens"]["p50"] == pytest.approx(20, rel=0.5)
        assert way["first_token"]["p50"] > 20
        assert way["generator_cpu"] > 0 and way["server_cpu"]["upstream"] > 0
    assert "gateway" not in alone["server_cpu"] and through["server_cpu"]["gateway"] > 0
    added = through["first_token"]["p50"] - alone["first_token"]["p50"]
    assert overhead["added"]["first_token_p50"] == pytest.approx(added)
    assert re.search(rf"^first token, p50, ms .*{re.escape(f'{added:+.2f}')}$", printed, re.MULTILINE)


def check_routing(routing: dict[str, Any], printed: str) -> None:
    assert routing["infinite"]["prompt_tokens"] == routing["affinity"]["prompt_tokens"]
    assert routing["infinite"]["of_infinite"] == 1
    assert routing["round_robin"]["of_infinite"] < routing["affinity"]["of_infinite"] <= 1
    assert all(routing[way]["failed"] == 0 for way in ("infinite", "round_robin", "affinity"))
    lost = routing["upstream_lost"]
    assert (lost["conversations"], lost["others_moved"]) == (8, 0)
    assert f"{routing['affinity']['cached_share']:.2%}" in printed


def test_a_conversation_moved_if_it_was_answered_elsewhere_later() -> None:
    before = {0: [0, 0], 1: [1], 2: [2, 0], 3: [3], 4: [4]}
    after = {0: [0, 0, 5], 1: [1, 1], 2: [2, 0], 3: [3, 4, 3], 4: [4], 5: [6, 7]}
    found = moves(before, after, lost=0, failed=2)
    assert found == Moves(conversations=6, lost=2, others_moved=1, failed=2)
    assert found.share == 0.5


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--streams", "0"], 2, "--streams is 0; it must be at least 1"),
        (["--seconds", "nan"], 2, "--seconds is nan"),
        (["--rate", "0"], 2, "--rate is 0.0; it must be above 0"),
        (["--target", "http://127.0.0.1:1"], 2, "--target and --upstream belong together"),
        (["--target", "https://a", "--upstream", "http://127.0.0.1:2"], 2, "'https://a' is no address of the form"),
        (["--target", "http://127.0.0.1:1", "--upstream", "http://127.0.0.1:2"], 1, "127.0.0.1:1/v1/models names no"),
    ],
)
def test_a_mistake_is_one_line(flags: list[str], status: int, words: str) -> None:
    ran = run("deepinfer", "bench", "gateway", *flags)
    assert (ran.returncode, ran.stderr.count("\n")) == (status, 1)
    assert words in ran.stderr


def test_a_missing_matplotlib_is_told_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CommandError, match=r'pip install "deepinfer\[bench\]"'):
        plot.require()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_gateway_stands_a_short_soak() -> None:
    ran = run("benchmarks.soak", "--seconds", "10", "--streams", "32")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kinds = {line.split()[0]: line.split()[1:] for line in ran.stdout.splitlines()[1:4]}
    assert set(kinds) == {"chat", "responses", "messages"}
    assert all(int(whole) > 0 for whole, *_ in kinds.values())
    assert sum(int(count) for counts in kinds.values() for count in counts[1:]) > 10
    assert "FAILED" not in ran.stdout and ran.stdout.count(" ok") == 9
