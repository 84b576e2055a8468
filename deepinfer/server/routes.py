"""Paths and their handlers."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deepinfer.link import PATH
from deepinfer.server.completions.surface import CompletionSurface
from deepinfer.server.errors import HttpError
from deepinfer.server.generate import GenerateEndpoint
from deepinfer.server.link.endpoint import LinkEndpoint
from deepinfer.server.models import Models
from deepinfer.server.openapi import describe_paths
from deepinfer.server.protocols import CHAT_PATHS, COMPLETION_PATHS, COUNT_PATHS, MODELS_PATHS
from deepinfer.server.responses.endpoints import StoredResponses
from deepinfer.server.services import Services
from deepinfer.server.small_answers import json_response
from deepinfer.server.status import Status
from deepinfer.server.surfaces import CodecSurface
from deepinfer.server.tokens import CountEndpoint, DetokenizeEndpoint, TokenizeEndpoint

# Paths that tell nothing of anybody, and that probes ask for without a key.
OPEN_PATHS: Final = frozenset({"/", "/health", "/ready"})


def build_routes(services: Services) -> list[BaseRoute]:
    """List every route of a server."""
    return [*_generation_routes(services), *_responses_routes(services), *_other_routes(services)]


def _generation_routes(services: Services) -> list[BaseRoute]:
    generating = [(path, CodecSurface(protocol)) for protocol, paths in CHAT_PATHS.items() for path in paths]
    completing = CompletionSurface()
    counting = [(path, protocol) for protocol, paths in COUNT_PATHS.items() for path in paths]
    return [
        # The first that matches is taken: a gateway's requests come first, as its clients wait for two servers.
        *(Route(path, GenerateEndpoint(services, completing), methods=["POST"]) for path in COMPLETION_PATHS),
        *(Route(path, GenerateEndpoint(services, surface), methods=["POST"]) for path, surface in generating),
        *(Route(path, CountEndpoint(services, protocol), methods=["POST"]) for path, protocol in counting),
        Route("/tokenize", TokenizeEndpoint(services), methods=["POST"]),
        Route("/detokenize", DetokenizeEndpoint(services), methods=["POST"]),
    ]


def _responses_routes(services: Services) -> list[BaseRoute]:
    stored = StoredResponses(services)
    routes: list[BaseRoute] = []
    for path in CHAT_PATHS["responses"]:
        one = f"{path}/{{response_id}}"
        routes += [
            # Stands before the ids, so that it is a path that is not there rather than an id.
            Route(f"{path}/compact", _absent, methods=["POST"]),
            Route(one, stored.retrieve, methods=["GET"]),
            Route(one, stored.delete, methods=["DELETE"]),
            Route(f"{one}/cancel", stored.cancel, methods=["POST"]),
            Route(f"{one}/input_items", stored.list_input, methods=["GET"]),
        ]
    return routes


def _other_routes(services: Services) -> list[BaseRoute]:
    models, status = Models(services), Status(services)
    routes: list[BaseRoute] = []
    for path in MODELS_PATHS:
        routes.append(Route(path, models.list_all, methods=["GET"]))
        routes.append(Route(f"{path}/{{name:path}}", models.retrieve, methods=["GET"]))
    document = describe_paths()

    async def openapi(request: Request) -> Response:
        return json_response(document)

    return [
        *routes,
        Route(PATH, LinkEndpoint(services), methods=["GET"]),
        Route("/", status.root, methods=["GET"]),
        Route("/health", status.health, methods=["GET"]),
        Route("/ready", status.ready, methods=["GET"]),
        Route("/metrics", status.metrics, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/user/balance", status.balance, methods=["GET"]),
        Route("/v1/requests/{request_id:path}", status.cancel, methods=["DELETE"]),
    ]


async def _absent(request: Request) -> Response:
    raise HttpError(404, "not_found", f"{request.url.path} is not offered here; send the whole input, or shorten it")
