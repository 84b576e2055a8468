"""A server of one prepared answer, so that the official clients read our bytes from a real socket."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import dataclass
from types import TracebackType


@dataclass
class Prepared:
    """An answer in both forms."""

    stream: bytes
    response: bytes


class SdkServer:
    """Answers every POST with what is prepared: the stream, in small parts, if the body asks for one."""

    def __init__(self) -> None:
        self.prepared = Prepared(b"", b"{}")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The small parts must not wait for each other's acknowledgement.
            disable_nagle_algorithm = True

            def log_message(self, format: str, *arguments: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                streams = bool(body.get("stream"))
                answer = outer.prepared.stream if streams else outer.prepared.response
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if streams else "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                size = 997 if streams else len(answer)
                for place in range(0, len(answer), size):
                    self.wfile.write(answer[place : place + size])

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SdkServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
