"""Who may ask: API keys, compared in constant time. Knows nothing of what is asked."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers

from deepinfer.server.errors import HttpError


def check_access(headers: Headers, api_keys: Sequence[str]) -> None:
    """Raise a 401 unless the request carries one of `api_keys`; with no keys set, everyone may ask."""
    if not api_keys:
        return
    offered = _offered_key(headers)
    if offered is None:
        raise _refused("no API key was given; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
    if not _is_known(offered, api_keys):
        raise _refused("the API key is not valid for this server")


def _offered_key(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-api-key")


def _is_known(offered: str, api_keys: Sequence[str]) -> bool:
    # All keys are compared, always, so that the time taken tells nothing about which one came close.
    # Header values arrive decoded as Latin-1: encoded so again, they are the bytes that were sent.
    data = offered.encode("latin-1")
    matches = [hmac.compare_digest(data, key.encode("utf-8", "surrogateescape")) for key in api_keys]
    return any(matches)


def _refused(message: str) -> HttpError:
    return HttpError(401, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})
