"""Runs files of vectors against the installed `deepseek_recipe`: `run.py encode FILE…`, `run.py decode FILE…`, `run.py
cases FILE…`.

Prints the id of each failing row with its first difference, ends with `N passed, N failed`, and exits with 1 if any
failed. `--deviations FILE` names the rows of recordings whose expected result is ours rather than the file's; `--kinds`
the kinds of cases to judge, all others being printed as not judged.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.vectors import case_rows, decode_rows, encode_rows  # noqa: E402

Row = dict[str, Any]
RUNNERS = {"cases": case_rows.check, "decode": decode_rows.check, "encode": encode_rows.check}


def rows(path: Path) -> Iterator[Row]:
    """Rows of a file of JSON lines, plain or compressed."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def deviations(path: Path) -> dict[str, Row]:
    """Rows that differ on purpose: id to `class` and the expected result."""
    if not path.exists():
        return {}
    found: dict[str, Row] = tomllib.loads(path.read_text(encoding="utf-8")).get("rows", {})
    return found


def main() -> int:
    """Runs the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(RUNNERS))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--deviations", type=Path, default=HERE / "deviations.toml", metavar="FILE")
    parser.add_argument(
        "--kinds", default=",".join(case_rows.DEFAULT_KINDS), help="kinds of cases to judge (%(default)s)"
    )
    parser.add_argument("--only", help="run only rows whose id or label contains this text", default="")
    arguments = parser.parse_args()
    listed = {} if arguments.kind == "cases" else deviations(arguments.deviations)
    judged = set(arguments.kinds.split(","))
    if unknown := judged - set(case_rows.KINDS):
        parser.error(f"--kinds: nothing judges {', '.join(sorted(unknown))}")
    passed = failed = 0
    for path in arguments.files:
        for row in rows(path):
            if arguments.only not in row["id"] and arguments.only not in row.get("label", ""):
                continue
            if arguments.kind == "cases" and row["kind"] not in judged:
                print(f"{row['id']}: not judged")
                continue
            difference = RUNNERS[arguments.kind](row, listed.get(row["id"]))
            if difference is None:
                passed += 1
            else:
                failed += 1
                print(f"{row['id']} ({row.get('label', row.get('group', row.get('area', '')))}): {difference}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
