"""From the settings of `serve` to the gateway's own, checked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.connection import ConnectionFaultError
from deepinfer.backends.remote.faults import UpstreamFaultError
from deepinfer.backends.remote.http_client import HttpClient, Origin
from deepinfer.backends.remote.probe import first_model
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.settings import ServeSettings

_MAX_KEY_LENGTH: Final = 4096


def remote_config(
    settings: ServeSettings, *, vocabulary_size: int, spell: Callable[[Sequence[int]], str]
) -> RemoteConfig:
    """Check the settings of the gateway and freeze them. Raises `UsageError` and `CommandError`."""
    origins = _origins(settings.upstream)
    return RemoteConfig(
        upstreams=origins,
        api_key=None if settings.upstream_api_key is None else _api_key(settings.upstream_api_key),
        model=settings.upstream_model,
        name=settings.upstream_model or settings.model,
        recipe_version=settings.prompt_format,
        vocabulary_size=vocabulary_size,
        context_length=settings.context_length,
        connect_seconds=settings.upstream_connect_seconds,
        first_token_seconds=settings.upstream_first_token_seconds,
        token_seconds=settings.upstream_token_seconds,
        load_cap=settings.upstream_load_cap,
        tls=_tls(settings.upstream_ca) if any(origin.tls for origin in origins) else None,
        spell=spell,
    )


def first_model_name(settings: ServeSettings) -> str:
    """Ask the upstreams, one after the other, which model they have. Raises `CommandError` if none answers."""
    config = remote_config(settings, vocabulary_size=1, spell=lambda _: "")
    return asyncio.run(_ask_for_name(config))


async def _ask_for_name(config: RemoteConfig) -> str:
    faults = []
    for origin in config.upstreams:
        client = HttpClient(origin, api_key=config.api_key, tls=config.tls, connect_seconds=config.connect_seconds)
        try:
            return await first_model(client)
        except (UpstreamFaultError, ConnectionFaultError) as error:
            faults.append(f"{origin.url}: {error}")
        finally:
            client.close()
    raise CommandError(f"no upstream tells its model: {'; '.join(faults)}; start one, or check --upstream")


def _origins(urls: Sequence[str]) -> tuple[Origin, ...]:
    origins: list[Origin] = []
    for url in urls:
        try:
            origin = Origin.parse(url)
        except ValueError as error:
            # It may hold a password, so it is not repeated.
            raise UsageError(f"--upstream number {len(origins) + 1} is not an address: {error}") from None
        if origin in origins:
            raise UsageError(f"--upstream {origin.url} is given twice")
        origins.append(origin)
    return tuple(origins)


def _api_key(given: str) -> str:
    """Read the key, or the file that holds it. No message shows it."""
    path = Path(given)
    try:
        key = path.read_text(encoding="ascii").strip() if len(given) < _MAX_KEY_LENGTH and path.is_file() else given
    except (OSError, UnicodeDecodeError):
        raise CommandError("--upstream-api-key names a file that cannot be read") from None
    if not key or len(key) > _MAX_KEY_LENGTH or not all("!" <= character <= "~" for character in key):
        raise UsageError("--upstream-api-key must be a key of visible ASCII characters, or a file with one in it")
    return key


def _tls(path: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(f"--upstream-ca {path}: {error}; give a file of certificates in PEM") from None
