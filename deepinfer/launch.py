"""What stands behind `deepinfer serve`: arguments as typed are checked, resolved once into frozen settings, and run.

The only file that picks an engine. Imports one only when it is chosen, so that the scripted engine needs no torch.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deepinfer.core import Engine, ModelDescription
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.prompt_format import prompt_format
from deepinfer.server.config import ServerConfig
from deepinfer.server.logging import configure_logging
from deepinfer.server.serve import BindError, bind_socket, run

logger = logging.getLogger(__name__)

KEY_VARIABLE: Final = "DEEPINFER_API_KEY"
EMBEDDED_MODEL: Final = "deepinfer-tiny"
_ENGINES: Final = ("native", "scripted")
_SCRIPTED_CONTEXT: Final = 1024 * 1024
_VOCABULARY: Final = 129280


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """The arguments of `deepinfer serve` as typed."""

    host: str
    port: int
    api_key: list[str]
    model: str
    served_model_name: list[str]
    engine: str
    script: str | None
    prompt_format: str
    context_length: int | None
    max_body_bytes: int
    shutdown_seconds: float
    log_level: str


def launch(arguments: ServeArguments, environment: Mapping[str, str]) -> None:
    """Serve until a signal. Raises `UsageError`, `CommandError` or `EngineError` with what to do."""
    _check(arguments)
    configure_logging(arguments.log_level)
    config = resolve_config(arguments, environment)
    engine = _build_engine(arguments)
    try:
        listener = bind_socket(arguments.host, arguments.port)
    except BindError as error:
        raise CommandError(str(error)) from None
    if not config.api_keys and not _is_loopback(arguments.host):
        logger.warning("everyone who reaches %s may ask; pass --api-key to ask for a key", arguments.host)
    run(engine, config, listener)


def resolve_config(arguments: ServeArguments, environment: Mapping[str, str]) -> ServerConfig:
    """Fill every default of the server's settings."""
    names = arguments.served_model_name or [arguments.model]
    keys = arguments.api_key or environment.get(KEY_VARIABLE, "").split(",")
    return ServerConfig(
        model_names=tuple(dict.fromkeys(names)),
        api_keys=tuple(key.strip() for key in keys if key.strip()),
        max_body_bytes=arguments.max_body_bytes,
        shutdown_seconds=arguments.shutdown_seconds,
        # A script answers what it answers: whether that fits a request's settings is its author's business.
        serves_constraints=arguments.engine == "scripted",
        serves_penalties=arguments.engine == "scripted",
    )


def _check(arguments: ServeArguments) -> None:
    if arguments.engine not in _ENGINES:
        raise UsageError(f"--engine {arguments.engine!r} is unknown; use one of: {', '.join(_ENGINES)}")
    if arguments.engine == "scripted" and arguments.script is None:
        raise UsageError("--engine scripted needs --script FILE, a file of rules")
    if arguments.engine != "scripted" and arguments.script is not None:
        raise UsageError("--script works with --engine scripted only; add it, or leave --script out")
    if arguments.engine == "native" and arguments.model != EMBEDDED_MODEL:
        raise UsageError(
            f"--model {arguments.model!r} is unknown; the native engine runs {EMBEDDED_MODEL}. "
            "To answer under another name, use --served-model-name"
        )
    if not 0 <= arguments.port <= 65535:
        raise UsageError(f"--port is {arguments.port}; it must lie between 0 and 65535")
    for flag, value, least in (
        ("--max-body-bytes", arguments.max_body_bytes, 1),
        ("--context-length", arguments.context_length or 1, 2 if arguments.context_length is not None else 1),
        ("--shutdown-seconds", arguments.shutdown_seconds, 0),
    ):
        if not least <= value < float("inf"):
            raise UsageError(f"{flag} is {value}; it must be at least {least}")
    if any(not name.strip() for name in arguments.served_model_name):
        raise UsageError("--served-model-name is empty; give the name that requests will use")


def _build_engine(arguments: ServeArguments) -> Engine:
    return _scripted_engine(arguments) if arguments.engine == "scripted" else _native_engine(arguments)


def _scripted_engine(arguments: ServeArguments) -> Engine:
    from deepinfer.backends.scripted import ScriptedEngine
    from deepinfer.offline.script_file import ScriptFileError, load_script_file

    assert arguments.script is not None
    try:
        rules = load_script_file(Path(arguments.script), recipe_version=prompt_format(arguments.prompt_format))
    except ScriptFileError as error:
        raise CommandError(str(error)) from None
    description = ModelDescription(
        name=arguments.model,
        recipe_version=arguments.prompt_format,
        vocabulary_size=_VOCABULARY,
        context_length=arguments.context_length or _SCRIPTED_CONTEXT,
    )
    return ScriptedEngine(rules.choose, description)


def _native_engine(arguments: ServeArguments) -> Engine:
    from deepinfer.backends.native import NativeEngine
    from deepinfer.config import EngineConfig
    from deepinfer.model.config import ModelConfig

    defaults = EngineConfig(name=arguments.model, recipe_version=arguments.prompt_format)
    context_length = arguments.context_length or defaults.context_length
    # The cache must hold at least one sequence of full length.
    block_count = max(defaults.block_count, -(-context_length // defaults.block_size))
    config = EngineConfig(
        name=arguments.model,
        recipe_version=arguments.prompt_format,
        context_length=context_length,
        block_count=block_count,
    )
    return NativeEngine(config, ModelConfig())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
