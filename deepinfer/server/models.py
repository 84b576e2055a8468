"""The models in a form that OpenAI's and Anthropic's clients both read: the fields of one do not hurt the other."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from deepinfer.server.services import Services
from deepinfer.server.small_answers import json_response


class Models:
    """`GET /v1/models` and `GET /v1/models/{id}`. Aliases are found, but not listed."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._created = int(time.time())

    async def list_all(self, request: Request) -> Response:
        """List the served names."""
        names = self._services.config.model_names
        data = [self._describe(name) for name in names]
        listing = {"object": "list", "data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        return json_response(listing)

    async def retrieve(self, request: Request) -> Response:
        """Describe one. Raises a 404."""
        name = request.path_params["name"]
        self._services.check_model(name)
        return json_response(self._describe(name))

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
            "input_modalities": ["text", "image"] if self._services.model.reads_images else ["text"],
            "output_modalities": ["text"],
        }
