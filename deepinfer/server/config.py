"""Settings of the HTTP server, resolved once and frozen. Knows nothing of flags, environment or engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What one server serves and what it lets its clients do.

    `model_names`: names a request may give in `model`; the first is the one that is documented.
    `api_keys`: if there are any, a request must carry one of them.
    `max_body_bytes`: longest request body; the rest of a longer one is never held.
    `body_idle_seconds`: longest silence while a body arrives.
    `send_idle_seconds`: longest time a client may leave the answer unread before it counts as gone.
    `keep_alive_seconds`: silence after which a stream carries a comment, so that proxies keep it open.
    `shutdown_seconds`: how long running answers may go on after a signal to stop.
    `serves_constraints`: whether the engine keeps answers to a schema; if not, such requests are refused.
    `serves_penalties`: whether the engine honours penalties, `logit_bias` and `top_k`; if not, they are refused.
    """

    model_names: tuple[str, ...]
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_body_bytes: int = 32 * MEBIBYTE
    body_idle_seconds: float = 30.0
    send_idle_seconds: float = 60.0
    keep_alive_seconds: float = 10.0
    shutdown_seconds: float = 30.0
    serves_constraints: bool = False
    serves_penalties: bool = False
