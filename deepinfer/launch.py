"""What stands behind `deepinfer serve`: settings are checked, resolved once into frozen configurations, and run.

The only file that picks an engine. Imports one only when it is chosen, so that the scripted engine needs no torch.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from deepinfer.core import Engine, ModelDescription, Vocabulary
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.prompt_format import prompt_format
from deepinfer.server.access import KeyFileError, read_key_file
from deepinfer.server.config import ServerConfig
from deepinfer.server.logging import configure_logging
from deepinfer.server.responses.store.interface import Limits, ResponseStore, StoreError
from deepinfer.server.responses.store.opening import open_store
from deepinfer.server.serve import BindError, bind_socket, run
from deepinfer.setting_sources import unknown_variables
from deepinfer.settings import ServeSettings, flag_of

logger = logging.getLogger(__name__)

EMBEDDED_MODEL: Final = "deepinfer-tiny"
_ENGINES: Final = ("native", "scripted", "remote")
_SCRIPTED_CONTEXT: Final = 1024 * 1024
_VOCABULARY: Final = 129280
_LEAST_KEY_BYTES: Final = 16
_DAY: Final = 24 * 60 * 60
_LEAST: Final = {
    "max_body_bytes": 1,
    "max_waiting": 1,
    "context_length": 2,
    "shutdown_seconds": 0,
    "keep_alive_seconds": 0.001,
    "upstream_connect_seconds": 0.001,
    "upstream_first_token_seconds": 0.001,
    "upstream_token_seconds": 0.001,
    "upstream_load_cap": 1,
    "requests_per_minute": 0,
    "concurrent_requests": 0,
    "stored_responses": 0,
    "stored_response_bytes": 0,
    "stored_response_days": 0,
}


def launch(settings: ServeSettings, environment: Mapping[str, str]) -> None:
    """Serve until a signal. Raises `UsageError`, `CommandError` or `EngineError` with what to do."""
    configure_logging(settings.log_level)
    config = resolve_config(settings)
    for name in unknown_variables(environment):
        logger.warning("the environment variable %s is not a setting; `deepinfer serve --help` lists them", name)
    engine = build_engine(settings)
    store = open_response_store(config, environment)
    try:
        listener = bind_socket(settings.host, settings.port)
    except BindError as error:
        raise CommandError(str(error)) from None
    if is_open_to_all(settings):
        logger.warning("everyone who reaches %s may ask; pass --api-key-file to ask for a key", settings.host)
    run(engine, config, listener, store)


def resolve_config(settings: ServeSettings) -> ServerConfig:
    """Check the settings and freeze the server's part of them. Raises `UsageError` and `CommandError`."""
    _check(settings)
    names = tuple(dict.fromkeys(settings.served_model_name or (_model_name(settings),)))
    key_file = None if settings.api_key_file is None else Path(settings.api_key_file)
    if key_file is not None:
        try:
            read_key_file(key_file)
        except KeyFileError as error:
            raise CommandError(str(error)) from None
    return ServerConfig(
        model_names=names,
        model_aliases=tuple(_aliases(settings.model_alias, names)),
        api_keys=tuple(key.strip() for key in settings.api_key if key.strip()),
        api_key_file=key_file,
        requests_per_minute=settings.requests_per_minute,
        concurrent_requests=settings.concurrent_requests,
        cors_origins=settings.cors_origin,
        max_body_bytes=settings.max_body_bytes,
        private_image_hosts=settings.private_image_hosts,
        max_waiting=settings.max_waiting,
        keep_alive_seconds=settings.keep_alive_seconds,
        shutdown_seconds=settings.shutdown_seconds,
        history_key=None if settings.history_key is None else _history_key(settings.history_key),
        show_tool_errors=settings.show_tool_errors,
        stored_responses=settings.stored_responses,
        stored_response_bytes=settings.stored_response_bytes,
        stored_response_days=settings.stored_response_days,
        response_store=settings.response_store,
        log_prompts=settings.log_prompts,
    )


def build_engine(settings: ServeSettings) -> Engine:
    """Build the chosen engine, without starting it. Raises `CommandError` and `EngineError`."""
    builders = {"native": _native_engine, "scripted": _scripted_engine, "remote": _remote_engine}
    return builders[settings.engine](settings)


def open_response_store(config: ServerConfig, environment: Mapping[str, str]) -> ResponseStore | None:
    """Open the store of responses; None if nothing is to be kept. Raises `CommandError`."""
    limits = Limits(
        max_count=config.stored_responses,
        max_bytes=config.stored_response_bytes,
        max_age=config.stored_response_days * _DAY or None,
    )
    try:
        return open_store(config.response_store, limits, environment)
    except StoreError as error:
        raise CommandError(f"responses cannot be kept: {error}") from None


def is_open_to_all(settings: ServeSettings) -> bool:
    """Whether other machines may ask without a key."""
    return not settings.api_key and settings.api_key_file is None and not _is_loopback(settings.host)


def _check(settings: ServeSettings) -> None:
    if settings.engine not in _ENGINES:
        raise UsageError(f"--engine {settings.engine!r} is unknown; use one of: {', '.join(_ENGINES)}")
    if settings.engine == "scripted" and settings.script is None:
        raise UsageError("--engine scripted needs --script FILE, a file of rules")
    if settings.engine != "scripted" and settings.script is not None:
        raise UsageError("--script works with --engine scripted only; add it, or leave --script out")
    if settings.engine == "remote" and not settings.upstream:
        raise UsageError("--engine remote needs --upstream URL, the address of a server that generates")
    if settings.engine != "remote" and settings.upstream:
        raise UsageError("--upstream works with --engine remote only; add it, or leave --upstream out")
    if settings.engine == "native" and settings.model != EMBEDDED_MODEL and not Path(settings.model).is_dir():
        raise UsageError(
            f"--model {settings.model!r} is no directory; give that of a checkpoint, or {EMBEDDED_MODEL}. "
            "To answer under another name, use --served-model-name"
        )
    if not 0 <= settings.port <= 65535:
        raise UsageError(f"--port is {settings.port}; it must lie between 0 and 65535")
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        if value is not None and not least <= value < float("inf"):
            raise UsageError(f"{flag_of(name)} is {value}; it must be at least {least}")
    if any(not name.strip() for name in settings.served_model_name):
        raise UsageError("--served-model-name is empty; give the name that requests will use")


def _model_name(settings: ServeSettings) -> str:
    """The name that is served unless others are given: that of the model, at an upstream where it runs there."""
    if settings.engine != "remote":
        return _name_of(settings.model)
    from deepinfer.backends.remote.settings import first_model_name

    return settings.upstream_model or first_model_name(settings)


def _name_of(model: str) -> str:
    """Name of a model that is given as it is, or by its directory."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def _aliases(given: Iterable[str], names: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    for text in given:
        alias, _, name = text.partition("=")
        name = name or names[0]
        if not alias.strip() or "*" in alias[:-1]:
            raise UsageError(f"--model-alias is {text!r}; write NAME, or a beginning and *, as in 'claude-*'")
        if name not in names:
            raise UsageError(f"--model-alias {text!r} stands for {name!r}, which is not served: {', '.join(names)}")
        yield alias, name


def _history_key(given: str) -> bytes:
    """Read the key from hex digits, or from a file that holds them. No message shows it."""
    try:
        key = bytes.fromhex(given)
    except ValueError:
        key = _history_key_of(Path(given))
    if len(key) < _LEAST_KEY_BYTES:
        raise UsageError(f"--history-key has {len(key)} bytes; it needs at least {_LEAST_KEY_BYTES}, two digits each")
    return key


def _history_key_of(path: Path) -> bytes:
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError:
        advice = "make one with: openssl rand -hex 32"
        raise CommandError(f"--history-key is neither hex digits nor a file that can be read; {advice}") from None
    except ValueError:
        raise CommandError("--history-key: the file must hold hex digits and nothing else") from None


def _scripted_engine(settings: ServeSettings) -> Engine:
    from deepinfer.backends.scripted import ScriptedEngine
    from deepinfer.offline.script_file import ScriptFileError, load_script_file

    assert settings.script is not None
    try:
        rules = load_script_file(Path(settings.script), recipe_version=prompt_format(settings.prompt_format))
    except ScriptFileError as error:
        raise CommandError(str(error)) from None
    description = ModelDescription(
        name=settings.model,
        recipe_version=settings.prompt_format,
        vocabulary_size=_VOCABULARY,
        context_length=settings.context_length or _SCRIPTED_CONTEXT,
        # V4 prompts have words in place of images.
        reads_images=settings.prompt_format == "v4.1",
    )
    return ScriptedEngine(rules.choose, description, kept_sequences=rules.kept_sequences)


def _native_engine(settings: ServeSettings) -> Engine:
    from deepinfer.backends.native import NativeEngine
    from deepinfer.config import EngineConfig
    from deepinfer.model.files import read_config
    from deepinfer.model.presets import embedded

    checkpoint = None if settings.model == EMBEDDED_MODEL else Path(settings.model)
    model = embedded() if checkpoint is None else read_config(checkpoint)
    longest = model.max_position_embeddings
    if settings.context_length is not None and settings.context_length > longest:
        raise UsageError(f"--context-length is {settings.context_length}; the model ends at {longest} positions")
    defaults = EngineConfig(name=settings.model, recipe_version=settings.prompt_format)
    context_length = settings.context_length or min(defaults.context_length, longest)
    # The cache must hold at least one sequence of full length.
    block_count = max(defaults.block_count, -(-context_length // defaults.block_size))
    config = EngineConfig(
        name=settings.model,
        recipe_version=settings.prompt_format,
        context_length=context_length,
        block_count=block_count,
    )
    return NativeEngine(
        config,
        model,
        checkpoint,
        token_texts=lambda: _token_texts(settings, model.vocab_size),
        vocabulary=lambda: _vocabulary(settings, model.vocab_size),
    )


def _remote_engine(settings: ServeSettings) -> Engine:
    from deepinfer.backends.remote.engine import RemoteEngine
    from deepinfer.backends.remote.settings import remote_config

    return RemoteEngine(remote_config(settings, vocabulary_size=_VOCABULARY, spell=lambda ids: _spell(settings, ids)))


def _spell(settings: ServeSettings, token_ids: Sequence[int]) -> str:
    """Write ids as text, control tokens as their spellings."""
    from deepinfer.server.token_texts import spell

    return spell(prompt_format(settings.prompt_format), token_ids)


def _token_texts(settings: ServeSettings, vocabulary_size: int) -> list[tuple[str, str]] | None:
    """Text and raw piece of every token, from the tokenizer of the prompt format; None if it is not the model's."""
    from deepinfer.server.token_texts import token_texts

    texts = token_texts(prompt_format(settings.prompt_format))
    return texts if len(texts) == vocabulary_size else None


def _vocabulary(settings: ServeSettings, vocabulary_size: int) -> Vocabulary | None:
    """What grammars need, from the tokenizer of the prompt format; None if it is not the model's."""
    from deepinfer.server.vocabulary import read_vocabulary

    vocabulary = read_vocabulary(settings.prompt_format)
    return vocabulary if len(vocabulary.token_bytes) == vocabulary_size else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
