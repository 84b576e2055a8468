"""Fuzzes the HTTP server: `fuzz/server/search.py SCHEMATHESIS SECONDS`.

Requests are made from the server's own OpenAPI document, fitting it and not. The law: no 5xx, no answer later than 20
seconds, every error is JSON in an envelope, and afterwards the server still answers and its log has no traceback.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.e2e.server_process import ServerProcess, chat_body  # noqa: E402

# Further names of the same handlers.
_OTHER_FORMS = "^/(beta|anthropic|chat|responses|completions|models)"


def main(schemathesis: str, seconds: str) -> int:
    """Run the search and return its exit status."""
    script = ROOT / "deepinfer" / "demo" / "weather.toml"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        flags = ("--engine", "scripted", "--script", str(script), "--log-level", "warning")
        with ServerProcess(log, *flags, "--context-length", "8192", "--model-alias", "*") as server:
            status = subprocess.run(
                [
                    *(schemathesis, "run", f"{server.url}/openapi.json", "--max-time", seconds),
                    *("--checks", "not_a_server_error,content_type_conformance,status_code_conformance"),
                    *("--exclude-path-regex", _OTHER_FORMS, "--request-timeout", "20", "--max-examples", "100000"),
                    *("--continue-on-failure", "--warnings", "off", "--no-shrink"),
                ],
                cwd=folder,
                check=False,
            ).returncode
            answered = server.http.post("/v1/chat/completions", json=chat_body("Hello"), timeout=20)
        if answered.status_code != 200 or "Traceback" in log.read_text():
            print(f"the server is not well afterwards: {answered.text}\n{log.read_text()[-5000:]}")
            return 1
        return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
