"""JSON answers of the small paths."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


def json_response(content: object, *, status: int = 200) -> Response:
    """An answer with `content` as JSON; bytes are JSON already."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(body, status_code=status, media_type="application/json")
