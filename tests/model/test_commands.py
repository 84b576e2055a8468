"""The commands on a checkpoint: inspect, bench, serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deepinfer.bench.model import run_bench
from deepinfer.cli import main
from deepinfer.model import presets
from deepinfer.model.checkpoint import TOKEN_MAP, save_model
from deepinfer.model.initial import randomize
from deepinfer.model.presets import tiny
from deepinfer.model.transformer import Transformer
from tests.e2e.server_process import ServerProcess
from tests.model.support import lively


def test_inspect_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(lively(presets.tester()), tmp_path)
    assert main(["inspect", str(tmp_path)]) == 0
    assert "cache in this engine:" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "nothing")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_bench_prints_speeds_and_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepinfer.bench.model.PROMPT", 32)
    monkeypatch.setattr("deepinfer.bench.model.BATCHES", (1, 3))
    save_model(lively(), tmp_path)
    run_bench(tmp_path, threads=1, rounds=1)
    printed = capsys.readouterr().out
    for word in ("prefill", "decode, 1 ", "decode, 3", "cost of invariance", "experts", "engram"):
        assert word in printed
    assert main(["bench", "model", "--rounds", "0"]) == 2
    assert "--rounds is 0; it must be at least 1" in capsys.readouterr().err


def test_serve_answers_from_a_checkpoint(tmp_path: Path) -> None:
    """With Engram, whose token map comes from the tokenizer, as the directory has none."""
    config = replace(tiny(), vocab_size=129280, hidden_size=32, num_nextn_predict_layers=0)
    directory = tmp_path / "my-model"
    save_model(randomize(Transformer(config), seed=0, logit_deviation=3.0), directory)
    (directory / TOKEN_MAP).unlink()
    with ServerProcess(tmp_path / "log", "--model", str(directory)) as server:
        body = {"model": "my-model", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
        answer = server.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] >= 1
    assert "loaded" in (tmp_path / "log").read_text(encoding="utf-8")
