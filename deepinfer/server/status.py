"""How the server is, what it is, and the cancelling of what runs on it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import exchange_of
from deepinfer.server.metrics import CONTENT_TYPE
from deepinfer.server.services import Services
from deepinfer.server.small_answers import json_response


class Status:
    """Paths that need no engine work."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def root(self, request: Request) -> Response:
        """Say what answers here: clients probe the bare address."""
        return json_response({"server": "deepinfer", "api": "/openapi.json", "models": "/v1/models"})

    async def health(self, request: Request) -> Response:
        """Whether the engine works: 200 or 503."""
        return self._state(taking=self._services.engine.health().ready)

    async def ready(self, request: Request) -> Response:
        """Whether to send requests here: not when the engine is out of order, nor when the server is about to end."""
        return self._state(taking=self._services.engine.health().ready and not self._services.live.draining)

    async def metrics(self, request: Request) -> Response:
        """Counters and gauges for Prometheus."""
        return Response(self._services.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def balance(self, request: Request) -> Response:
        """DeepSeek's own path: there is no balance here, and none is needed."""
        return json_response({"is_available": True, "balance_infos": []})

    async def cancel(self, request: Request) -> Response:
        """End a client's own requests by the id that their answers carry. Raises a 404."""
        request_id = request.path_params["request_id"]
        count = self._services.live.cancel(exchange_of(request.scope).client, request_id)
        if not count:
            message = f"no request with the id {request_id[:128]!r} is running"
            raise HttpError(404, "request_not_found", message, param="request_id")
        return json_response({"id": request_id, "cancelled": count})

    def _state(self, *, taking: bool) -> Response:
        health = self._services.engine.health()
        state = {
            "ready": taking,
            "running": health.running,
            "waiting": health.waiting,
            "cache_bytes": health.cache_bytes,
            "detail": health.detail,
        }
        return json_response(state, status=200 if taking else 503)
