"""Paths and their handlers, and the small answers that need no engine work: models, health, metrics."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deepinfer.server.errors import HttpError
from deepinfer.server.generate import CountEndpoint, GenerateEndpoint
from deepinfer.server.metrics import CONTENT_TYPE
from deepinfer.server.protocols import COUNT_PATHS, GENERATION_PATHS
from deepinfer.server.services import Services

HEALTH_PATH = "/health"


def build_routes(services: Services) -> list[BaseRoute]:
    """List every route of a server."""
    models = _Models(services)
    status = _Status(services)
    routes: list[BaseRoute] = []
    for path, protocol in GENERATION_PATHS.items():
        routes.append(Route(path, GenerateEndpoint(services, protocol), methods=["POST"]))
    for path, protocol in COUNT_PATHS.items():
        routes.append(Route(path, CountEndpoint(services, protocol), methods=["POST"]))
    for prefix in ("/v1", ""):
        routes.append(Route(f"{prefix}/models", models.list_all, methods=["GET"]))
        routes.append(Route(f"{prefix}/models/{{name:path}}", models.retrieve, methods=["GET"]))
    routes.append(Route(HEALTH_PATH, status.health, methods=["GET"]))
    routes.append(Route("/metrics", status.metrics, methods=["GET"]))
    return routes


class _Models:
    """The models in a form that OpenAI's and Anthropic's clients both read: the fields of one do not hurt the other."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._created = int(time.time())

    async def list_all(self, request: Request) -> Response:
        names = self._services.config.model_names
        data = [self._describe(name) for name in names]
        listing = {"object": "list", "data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        return _json(listing)

    async def retrieve(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._services.config.model_names:
            served = ", ".join(self._services.config.model_names)
            message = f"the model {name[:200]!r} is not served here; use one of: {served}"
            raise HttpError(404, "model_not_found", message, param="model")
        return _json(self._describe(name))

    def _describe(self, name: str) -> dict[str, object]:
        length = self._services.model.context_length
        return {
            "id": name,
            "object": "model",
            "type": "model",
            "created": self._created,
            "created_at": datetime.fromtimestamp(self._created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "owned_by": "deepinfer",
            "name": name,
            "display_name": name,
            "context_window": length,
            "max_model_len": length,
            "max_output_tokens": length,
            "input_modalities": ["text"],
            "output_modalities": ["text"],
        }


class _Status:
    """How the server is."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def health(self, request: Request) -> Response:
        health = self._services.engine.health()
        state = {
            "ready": health.ready,
            "running": health.running,
            "waiting": health.waiting,
            "cache_bytes": health.cache_bytes,
            "detail": health.detail,
        }
        return _json(state, status=200 if health.ready else 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self._services.metrics.render(), headers={"content-type": CONTENT_TYPE})


def _json(content: object, *, status: int = 200) -> Response:
    return Response(json.dumps(content), status_code=status, media_type="application/json")
