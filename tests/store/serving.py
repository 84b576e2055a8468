"""Real servers with stores of their own, for tests of what becomes of responses when something breaks."""

from __future__ import annotations

from typing import Any

from tests.e2e.server_process import ServerProcess

MODEL = "deepinfer-tiny"


def create(server: ServerProcess, text: str, **fields: Any) -> Any:
    """Ask for a response; the whole HTTP answer."""
    return server.http.post("/v1/responses", json={"model": MODEL, "input": text, **fields}, timeout=30)


def retrieve(server: ServerProcess, response_id: str, **query: Any) -> Any:
    """Find a response; the whole HTTP answer."""
    return server.http.get(f"/v1/responses/{response_id}", params=query, timeout=30)


def status_of(server: ServerProcess, response_id: str) -> str:
    """The status of a response that is there."""
    found: str = retrieve(server, response_id).json()["status"]
    return found
