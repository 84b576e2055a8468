"""The path on which a gateway opens its link: a request passes the edge as any other, then its connection is taken."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from deepinfer.link import PROTOCOL
from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import exchange_of
from deepinfer.server.http_protocol import UPGRADE
from deepinfer.server.link.connection import LinkConnection
from deepinfer.server.services import Services

_SWITCHING: Final = 101


class LinkEndpoint:
    """`GET /v1/link?model=NAME`, with an offer to upgrade."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a link. Raises a 426 where nothing was offered, or the way here does not pass offers on."""
        exchange = exchange_of(scope)
        names = parse_qs(scope["query_string"].decode("latin-1")).get("model", [""])
        self._services.check_model(names[0])
        upgrade = scope.get("extensions", {}).get(UPGRADE)
        if upgrade is None:
            message = f"this path is for other servers of this kind; it needs 'upgrade: {PROTOCOL}'"
            raise HttpError(426, "upgrade_required", message, headers={"upgrade": PROTOCOL, "connection": "upgrade"})
        exchange.model = names[0]
        headers = Headers(scope=scope)

        def identify() -> str:
            return self._services.keyring.identify(headers)

        upgrade["switch"](lambda connections: LinkConnection(self._services, identify, names[0], connections))
        exchange.status = _SWITCHING
