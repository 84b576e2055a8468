"""Responses whose server ended while they were being made: they have failed, and say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from deepinfer.server.responses.store.interface import StoredResponse

_REASON: Final = "the server was restarted while this response was being made; send the request again"


def as_interrupted(response: StoredResponse) -> StoredResponse:
    """What becomes of an unfinished response. Its events were in the memory of the process that ended."""
    body: dict[str, Any] = msgspec.json.decode(response.body)
    body["status"] = "failed"
    body["error"] = {"code": "server_error", "message": _REASON}
    return replace(response, body=msgspec.json.encode(body), unfinished=False)


def is_interrupted(response: StoredResponse) -> bool:
    """Whether a response became what it is by `as_interrupted`."""
    error = msgspec.json.decode(response.body)["error"]
    return error is not None and error["message"] == _REASON


def last_event(response: StoredResponse, number: int) -> bytes:
    """The event that ends the stream of an interrupted response, whatever a client has read of it so far."""
    event = {"type": "response.failed", "sequence_number": number, "response": msgspec.Raw(response.body)}
    return b"event: response.failed\ndata: %b\n\n" % msgspec.json.encode(event)
