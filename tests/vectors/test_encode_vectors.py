"""The encode vectors as tests: every row gives the file's result, or exactly what is listed as our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VECTORS = HERE / "encode.jsonl.gz"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the vectors as a person would."""
    command = [sys.executable, str(HERE / "run.py"), "encode", str(VECTORS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_all_rows() -> None:
    result = run()
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "1123 passed, 0 failed\n"


def test_a_row_that_equals_the_file_may_not_be_listed(tmp_path: Path) -> None:
    listed = tmp_path / "deviations.toml"
    listed.write_text('[rows.p0001]\nclass = "none"\n[rows.p0001.ok]\nstream = false\n', encoding="utf-8")
    result = run("--only", "p0001", "--deviations", str(listed))
    assert result.returncode == 1
    assert "p0001" in result.stdout
    assert "is listed as a deviation but equals the file" in result.stdout


def test_a_row_that_differs_must_be_listed(tmp_path: Path) -> None:
    result = run("--only", "p0360", "--deviations", str(tmp_path / "none.toml"))
    assert result.returncode == 1
    assert "p0360" in result.stdout
    assert "0 passed, 1 failed" in result.stdout


def test_a_listed_result_must_be_met(tmp_path: Path) -> None:
    listed = tmp_path / "deviations.toml"
    listed.write_text('[rows.p0360]\nclass = "wrong"\n[rows.p0360.ok]\nprompt = "another"\n', encoding="utf-8")
    result = run("--only", "p0360", "--deviations", str(listed))
    assert result.returncode == 1
    assert "prompt: at 0" in result.stdout
