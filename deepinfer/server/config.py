"""Settings of the HTTP server, resolved once and frozen. Knows nothing of flags, environment or engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What one server serves and what it lets its clients do.

    `model_names`: names a request may give in `model`; the first is the one that is documented.
    `model_aliases`: further names, or beginnings of names that end with `*`, and the served names they stand for.
    `api_keys`, `api_key_file`: if there are any, a request must carry one of them.
    `requests_per_minute`, `concurrent_requests`: limits of one key; 0 is none.
    `cors_origins`: origins whose pages browsers let in.
    `max_body_bytes`: longest request body; the rest of a longer one is never held.
    `private_image_hosts`: whether images may be fetched from addresses that are not public.
    `max_waiting`: sequences that may wait in the engine before further requests are told to come back later.
    `body_idle_seconds`: longest silence while a body arrives.
    `send_idle_seconds`: longest time a client may leave the answer unread before it counts as gone.
    `keep_alive_seconds`: silence after which a stream carries a comment, so that proxies keep it open.
    `shutdown_seconds`: how long running answers may go on after a signal to stop.
    `history_key`: secret of token-faithful history; None switches it off.
    `show_tool_errors`: whether the model sees `is_error` of tool results.
    `stored_responses`, `stored_response_bytes`: bounds of what is kept of Responses; 0 responses keep none.
    `stored_response_days`: how long one is kept; 0 is no limit.
    `response_store`: where they are kept: a path, a URL or `memory`; None is a file of the user.
    `log_prompts`: whether the log holds the text of prompts and answers.
    """

    model_names: tuple[str, ...]
    model_aliases: tuple[tuple[str, str], ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    api_key_file: Path | None = None
    requests_per_minute: int = 0
    concurrent_requests: int = 0
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = 32 * MEBIBYTE
    private_image_hosts: bool = False
    max_waiting: int = 1000
    body_idle_seconds: float = 30.0
    send_idle_seconds: float = 60.0
    keep_alive_seconds: float = 10.0
    shutdown_seconds: float = 30.0
    history_key: bytes | None = field(default=None, repr=False)
    show_tool_errors: bool = False
    stored_responses: int = 1000
    stored_response_bytes: int = 256 * MEBIBYTE
    stored_response_days: float = 30.0
    response_store: str | None = field(default=None, repr=False)
    log_prompts: bool = False
