"""Assembly of the ASGI application. Starts no engine and opens no socket."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Router
from starlette.types import ASGIApp

from deepinfer.server.edge import Edge
from deepinfer.server.routes import build_routes
from deepinfer.server.services import Services


def build_application(services: Services) -> ASGIApp:
    """Build the application that serves `services`."""
    edge = Edge(Router(build_routes(services), redirect_slashes=False), services)
    origins = services.config.cors_origins
    if not origins:
        return edge
    return CORSMiddleware(
        edge,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "retry-after", "x-deepinfer-queue-position", "x-deepinfer-warnings"],
    )
