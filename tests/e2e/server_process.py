"""A real server in a process of its own, on a free port, for tests over real sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

_READY = re.compile(r"deepinfer is ready at (http://\S+)")


class ServerProcess:
    """`deepinfer serve --port 0` and how to talk to it. Its log goes to `log_path`, its state beside it."""

    def __init__(self, log_path: Path, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.log_path = log_path
        variables = {**os.environ, "XDG_STATE_HOME": str(log_path.parent.resolve()), **(environment or {})}
        command = [sys.executable, "-m", "deepinfer", "serve", "--port", "0", *flags]
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)
        self.url = self._wait_until_ready()
        self.http = httpx.Client(base_url=self.url, verify=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        return parts.hostname, parts.port

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self.log_path.read_text()

    def gauge(self, name: str) -> float:
        """Read one value of `/metrics`."""
        text = self.http.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert found is not None, f"{name} is not in:\n{text}"
        return float(found.group(1))

    def health(self) -> dict[str, Any]:
        """Read `/health`."""
        state: dict[str, Any] = self.http.get("/health").json()
        return state

    def connect(self) -> socket.socket:
        """Open a plain connection."""
        return socket.create_connection(self.address, timeout=30)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def _wait_until_ready(self) -> str:
        assert self.process.stdout is not None
        timer = threading.Timer(50, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                found = _READY.match(line)
                if found is not None:
                    return found.group(1)
        finally:
            timer.cancel()
        raise AssertionError(f"the server did not get ready:\n{self.log}")


def chat_body(content: str, **fields: Any) -> dict[str, Any]:
    """A Chat Completions request with one user message."""
    return {"model": "deepinfer-tiny", "messages": [{"role": "user", "content": content}], **fields}


def raw_post(path: str, body: dict[str, Any] | bytes, *, content_length: int | None = None) -> bytes:
    """The bytes of a POST request, as a client that speaks plain HTTP writes them."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(data) if content_length is None else content_length
    head = f"POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    return head.encode() + data


def eventually(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait until a condition holds; a generous limit only, so that a slow machine changes nothing."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "the condition never came true"
        time.sleep(0.02)
