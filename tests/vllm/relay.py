"""A relay of HTTP that remembers each question to `/v1/completions` and each event of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

import httpx


@dataclass(slots=True)
class Passage:
    """What passed for one request: its body, and the events of its answer."""

    body: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def prompt_ids(self) -> list[int]:
        """The ids of the prompt, as vLLM says it got them."""
        (ids,) = [choice["prompt_token_ids"] for choice in self._choices if choice.get("prompt_token_ids")]
        assert isinstance(ids, list)
        return ids

    @property
    def answer_ids(self) -> list[int]:
        """The ids that vLLM generated."""
        return [token_id for choice in self._choices for token_id in choice["token_ids"] or ()]

    @property
    def usage(self) -> dict[str, Any]:
        """vLLM's own count."""
        (usage,) = [event["usage"] for event in self.events if event.get("usage")]
        assert isinstance(usage, dict)
        return usage

    @property
    def _choices(self) -> list[dict[str, Any]]:
        return [choice for event in self.events for choice in event["choices"]]


class Relay:
    """Listens on a free port and passes everything on to `upstream`."""

    def __init__(self, upstream: str) -> None:
        passages: list[Passage] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on("GET", b"")

            def do_POST(self) -> None:
                self._pass_on("POST", self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

            def _pass_on(self, method: str, body: bytes) -> None:
                headers = {"content-type": "application/json"}
                with httpx.stream(method, upstream + self.path, content=body, headers=headers, timeout=60) as answer:
                    kind = answer.headers.get("content-type", "text/plain")
                    self.send_response(answer.status_code)
                    self.send_header("content-type", kind)
                    # Without a length, the end of the connection is the end of the answer.
                    self.end_headers()
                    if not kind.startswith("text/event-stream"):
                        self.wfile.write(answer.read())
                        return
                    passage = Passage(json.loads(body))
                    passages.append(passage)
                    for line in answer.iter_lines():
                        if line.startswith("data: {"):
                            passage.events.append(json.loads(line.removeprefix("data: ")))
                        self.wfile.write(line.encode() + b"\n")
                        self.wfile.flush()

        self.passages = passages
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
