"""Assembly of the ASGI application. Starts no engine and opens no socket."""

from __future__ import annotations

from starlette.routing import Router

from deepinfer.server.edge import Edge
from deepinfer.server.routes import build_routes
from deepinfer.server.services import Services


def build_application(services: Services) -> Edge:
    """Build the application that serves `services`."""
    return Edge(Router(build_routes(services), redirect_slashes=False), services)
