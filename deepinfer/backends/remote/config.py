"""Settings of the gateway, resolved once and frozen."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deepinfer.backends.remote.http_client import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConfig:
    """Upstreams and how to treat them.

    `model`: name that upstreams are asked for; None: the first that each lists. `name`, `recipe_version` and
    `vocabulary_size` describe the model to clients; `context_length` too, None: the least that an upstream names.
    `first_token_seconds`: longest wait for an answer's first token, the queue of the upstream included;
    `token_seconds`: longest wait between tokens. `load_cap`: see `routing.Router`.
    `spell` writes token ids as text, for upstreams that take no ids.
    """

    upstreams: tuple[Origin, ...]
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    name: str
    recipe_version: str
    vocabulary_size: int
    context_length: int | None = None
    connect_seconds: float = 5.0
    first_token_seconds: float = 600.0
    token_seconds: float = 60.0
    check_seconds: float = 5.0
    load_cap: float = 2.0
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    spell: Callable[[Sequence[int]], str] = field(repr=False)
