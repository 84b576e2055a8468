"""A real vLLM on the CPU, in an environment and a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

PYTHON: Final = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
MODEL: Final = "tiny"
CONTEXT: Final = 4096
GRAMMARS: Final = '{"backend":"guidance"}'
# It imports PyTorch in three processes, one after the other.
_START_SECONDS: Final = 300
_STOP_SECONDS: Final = 20
_LINES_OF_LOG: Final = 60


class VllmProcess:
    """A server with the model in `folder`, and how to talk to it. Its log and its caches lie in `scratch`."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        assert PYTHON.exists(), f"{PYTHON} is missing: run `make test-vllm`"
        self._log = scratch / "vllm.log"
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        # It closes idle connections after a few seconds, under a request if need be.
        self.http = httpx.Client(base_url=self.url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))
        with self._log.open("wb") as log:
            # A session of its own, so that a signal reaches all of its processes.
            self._process = subprocess.Popen(
                _command(folder, port), env=_environment(scratch), stdout=log, stderr=log, start_new_session=True
            )
        # Its engine and its worker wait for each other without sleeping. With a core for each, its HTTP side may get
        # none for seconds, and a whole answer is written before it notices that a client has left.
        os.sched_setaffinity(self._process.pid, {min(os.sched_getaffinity(0))})

    def __enter__(self) -> Self:
        try:
            self._wait_until_ready()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def complete(self, prompt: Sequence[int], **fields: Any) -> dict[str, Any]:
        """Ask it directly: the whole answer to `prompt`."""
        body = {"model": MODEL, "prompt": list(prompt), "return_token_ids": True, **fields}
        response = self.http.post("/v1/completions", json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def count(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        lines = re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", self.http.get("/metrics").text, re.MULTILINE)
        assert lines, f"vLLM has no metric {name}"
        return sum(float(value) for value in lines)

    def end_of_log(self) -> str:
        """What it said last."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:])

    def kill(self) -> None:
        """End it at once, in the middle of what it does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Let it end, all its processes with it."""
        self.http.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + _START_SECONDS
        while True:
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, f"vLLM ended with {self._process.returncode}:\n{self.end_of_log()}"
            assert time.monotonic() < limit, f"vLLM was not ready in {_START_SECONDS} s:\n{self.end_of_log()}"
            time.sleep(0.25)


def _command(folder: Path, port: int) -> list[str]:
    # Single precision: no answer hangs on how a sum was rounded. Of its grammar engines only guidance takes ours.
    flags = f"""
        --host 127.0.0.1 --port {port} --served-model-name {MODEL} --max-model-len {CONTEXT} --max-num-seqs 16
        --dtype float32 --enforce-eager --generation-config vllm --enable-prompt-tokens-details
        --structured-outputs-config {GRAMMARS}
    """
    return [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *flags.split()]


def _environment(scratch: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # It has one core.
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }


def _free_port() -> int:
    """A port that is free now. vLLM takes none by itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
