"""Members of a Responses request that are the server's business: what to keep, and settings that are only repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

import msgspec

from deepinfer.server.errors import HttpError
from deepinfer.server.json_body import read_json
from deepinfer.server.work import Keeping

_MAX_PAIRS: Final = 16
_MAX_KEY: Final = 64
_MAX_VALUE: Final = 512
# Settings that change the answer and that only a server with more state than this one could honour.
_UNSUPPORTED: Final = ("conversation", "prompt")


class _Members(msgspec.Struct):
    store: bool | None = None
    background: bool | None = None
    metadata: dict[str, str] | None = None
    max_tool_calls: int | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    truncation: Literal["auto", "disabled"] | None = None
    conversation: Any = None
    prompt: Any = None
    input: msgspec.Raw = msgspec.Raw(b"[]")


class ResponsesExtras:
    """What one request says of these."""

    def __init__(self, keeping: Keeping, repeated: Mapping[str, object]) -> None:
        self.keeping = keeping
        self._repeated = repeated

    @classmethod
    def read(cls, body: bytes, *, stream: bool, can_store: bool) -> Self:
        """Read a body that the codec has accepted. Raises `HttpError`."""
        members = read_json(body, _Members)
        for name in _UNSUPPORTED:
            if getattr(members, name) is not None:
                raise HttpError(400, "unsupported", f"{name} is not supported; send the items in input", param=name)
        _check_metadata(members.metadata or {})
        background = members.background or False
        if background and (members.store is False or not can_store):
            why = "store is false" if members.store is False else "this server keeps no responses"
            message = f"background: an answer in the background has to be kept, and {why}"
            raise HttpError(400, "requires", message, param="background")
        store = members.store is not False and can_store
        keeping = Keeping(
            store=store, background=background, keep_events=background and stream, input_items=_items(members.input)
        )
        return cls(keeping, _repeated(members, store=store))

    def added_to(self, echo: str | None) -> str:
        """Add the settings to those that the codec repeats, which keep the client's own digits."""
        added = msgspec.json.encode(self._repeated).decode()
        return f"{echo[:-1]},{added[1:]}" if echo else added


def _items(given: msgspec.Raw) -> bytes:
    data = bytes(given)
    if not data.lstrip().startswith(b'"'):
        return data
    return b'[{"type":"message","role":"user","content":%b}]' % data


def _repeated(members: _Members, *, store: bool) -> dict[str, object]:
    tier = members.service_tier
    settings: dict[str, object] = {
        "store": store,
        "metadata": members.metadata or {},
        "max_tool_calls": members.max_tool_calls,
        "prompt_cache_key": members.prompt_cache_key,
        "prompt_cache_retention": members.prompt_cache_retention,
        "safety_identifier": members.safety_identifier,
        "service_tier": "default" if tier in (None, "auto") else tier,
        "truncation": members.truncation or "disabled",
    }
    return settings


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > _MAX_PAIRS:
        message = f"metadata must hold at most {_MAX_PAIRS} pairs, not {len(metadata)}"
        raise HttpError(400, "array_too_long", message, param="metadata")
    for key, value in metadata.items():
        for what, text, limit in (("key", key, _MAX_KEY), ("value", value, _MAX_VALUE)):
            if len(text) > limit:
                message = f"metadata: a {what} must have at most {limit} characters, not {len(text)}"
                raise HttpError(400, "string_too_long", message, param="metadata")
