"""Servers that a measurement starts for itself, each a process of `deepinfer serve`, and servers' own figures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from deepinfer.bench.traffic import LENGTHS, TOOL
from deepinfer.mistakes import CommandError

MODEL: Final = "deepinfer-tiny"
_READY: Final = re.compile(r"deepinfer is ready at (http://\S+)")
_START_LIMIT: Final = 60.0
_CALL: Final = f"""

<｜DSML｜ calls>
<｜DSML｜ invoke name="{TOOL}">
<｜DSML｜ parameter name="path" string="true">src/main.py</｜DSML｜ parameter>
</｜DSML｜ invoke>
</｜DSML｜ calls>"""


class Server:
    """`deepinfer serve` with flags, on a free port. Owns the process; leaving the context kills it."""

    def __init__(self, *flags: str) -> None:
        self._log = tempfile.TemporaryFile()
        command = [sys.executable, "-m", "deepinfer", "serve", "--port", "0", "--log-level", "warning", *flags]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self.url = self._wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._log.close()

    @property
    def log(self) -> str:
        """What it printed and logged so far."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def _wait_until_ready(self) -> str:
        limit = time.monotonic() + _START_LIMIT
        while self._process.poll() is None and time.monotonic() < limit:
            if found := _READY.search(self.log):
                return found[1]
            time.sleep(0.02)
        self.kill()
        raise CommandError(f"a server did not start: {self.log.strip() or 'it printed nothing'}")


def upstream(
    folder: Path, number: int, *, delay_seconds: float, kept_sequences: int = 64, length_scale: float = 1.0
) -> Server:
    """Start a scripted upstream, whose answers begin with its number, end with a call and take so long for each token.

    Keeps its script in `folder`. Raises `CommandError` if it does not start.
    """
    rules = "".join(_rule(number, wish, int(words * length_scale), delay_seconds) for wish, words in LENGTHS.items())
    script = folder / f"upstream_{number}_{kept_sequences}.toml"
    script.write_text(f"kept_sequences = {kept_sequences}\n{rules}", encoding="utf-8")
    return Server("--engine", "scripted", "--script", str(script))


def gateway(upstreams: Sequence[str]) -> Server:
    """Start a gateway in front of the upstreams of these addresses. Raises `CommandError` if it does not start."""
    return Server("--engine", "remote", *(flag for url in upstreams for flag in ("--upstream", url)))


def upstream_of(text: str) -> int:
    """The number of the scripted upstream that wrote an answer. Raises `ValueError` if none did."""
    found = re.match(r"Upstream (\d+)\.", text)
    if found is None:
        raise ValueError(f"the answer {text[:40]!r} is from none of the scripted upstreams")
    return int(found[1])


def metrics(url: str) -> dict[str, float]:
    """Figures that the server at `url` shows under `/metrics`, by name; those with labels are left out.

    Empty if there are none. Raises `CommandError` if nothing answers.
    """
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except urllib.error.HTTPError:
        return {}
    except OSError as error:
        raise CommandError(f"{url} does not answer: {error}; give the address of a server that runs") from None
    plain = (line.split(" ")[:2] for line in lines if line and line[0] != "#" and "{" not in line)
    return {name: float(value) for name, value in plain}


def _rule(number: int, wish: str, words: int, delay_seconds: float) -> str:
    thinking, text = f"Upstream {number}." + " and so on" * (words // 6), "It goes on" + " and so on" * (words // 6)
    output = f"{thinking}</think>{text}{_CALL}"
    return f"[[rule]]\nmatch = \"answer-{wish}\"\ndelay_seconds = {delay_seconds}\noutput = '''{output}'''\n"
