"""The Makefile explains itself."""

import re
import subprocess
from pathlib import Path


def test_bare_make_lists_every_target(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    listing = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make (\S+) +\S", listing, re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())
