"""What is tracked stands for itself: it names no machine's folders and no package registry's host."""

import re
import subprocess
from pathlib import Path

import pytest

# Assembled here, so that this file does not name what it forbids.
HOSTS = [
    f"{name}.{domain}"
    for name, domain in [("crates", "io"), ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")]
]
HOSTS += ["debian" + ".org", "download.pytorch" + ".org"]
FOLDERS = ["/" + name + "/" for name in ("work", "root", "home", "Users")]
FORBIDDEN = re.compile(
    "|".join([re.escape(host) for host in HOSTS] + [rf"(?<![\w.}}\]]){folder}" for folder in FOLDERS])
)

# Cargo writes the identity of its registry into lock files. Recorded and reported inputs are data of others.
EXEMPT_SUFFIXES = {".lock", ".gz", ".json", ".jsonl", ".npz", ".safetensors"}


def tracked_files(repository: Path) -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [repository / name for name in listing.stdout.split("\0") if name]


def test_no_tracked_file_names_a_machine(repository: Path) -> None:
    found = []
    for path in tracked_files(repository):
        if path.suffix in EXEMPT_SUFFIXES or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(repository)}:{number}: {match[0]}")
    assert found == []


def test_no_link_leads_out_of_the_repository(repository: Path) -> None:
    links = [path for path in tracked_files(repository) if path.is_symlink()]
    assert [link for link in links if not link.resolve().is_relative_to(repository)] == []


@pytest.mark.parametrize("folder", ["recipe-py"])
def test_licence_is_the_same_in_every_distribution(repository: Path, folder: str) -> None:
    assert (repository / folder / "LICENSE").read_bytes() == (repository / "LICENSE").read_bytes()


def test_every_fuzz_target_is_declared(repository: Path) -> None:
    manifest = (repository / "fuzz" / "Cargo.toml").read_text(encoding="utf-8")
    declared = re.findall(r'^path = "fuzz_targets/(\w+)\.rs"$', manifest, re.MULTILINE)
    assert sorted(declared) == sorted(path.stem for path in (repository / "fuzz" / "fuzz_targets").glob("*.rs"))
