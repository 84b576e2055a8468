"""`deepinfer doctor`: looks at everything that `serve` will need, and says what to do about what is missing.

Starts no engine and opens no port for longer than a moment. Needs none of the packages that it looks for.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import platform
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from deepinfer.core import Engine
from deepinfer.errors import EngineError
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.setting_sources import unknown_variables
from deepinfer.settings import ServeSettings

_PACKAGES: Final = ("deepseek_recipe", "msgspec", "prometheus_client", "starlette", "uvicorn", "httptools")
_LEAST_FILES: Final = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found: `mark` is ok, warn or fail; `advice` says what to do."""

    mark: str
    what: str
    advice: str = ""


def examine(settings: ServeSettings, environment: Mapping[str, str], *, write: Callable[[str], object] = print) -> int:
    """Report every finding; the exit status is 1 if `serve` would not work."""
    failed = False
    for finding in _findings(settings, environment):
        failed = failed or finding.mark == "fail"
        write(f"{finding.mark:<4}  {finding.what}{f': {finding.advice}' if finding.advice else ''}")
    write("deepinfer serve will not start like this" if failed else "deepinfer serve can start")
    return 1 if failed else 0


def _findings(settings: ServeSettings, environment: Mapping[str, str]) -> Iterator[Finding]:
    yield Finding("ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    missing = yield from _packages(settings)
    for name in unknown_variables(environment):
        yield Finding("warn", f"{name} is no setting", "`deepinfer serve --help` lists them")
    yield from _open_files()
    if missing:
        return
    usable = yield from _settings(settings)
    if usable:
        yield from _port(settings)
        yield from _access(settings)
        yield from _answers(settings)
        yield from _store(settings, environment)


def _packages(settings: ServeSettings) -> Generator[Finding, None, bool]:
    wanted = [*_PACKAGES, *(["uvloop"] if sys.platform != "win32" else [])]
    if settings.engine == "native":
        wanted.append("torch")
    missing = False
    for name in wanted:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing = True
            yield Finding("fail", f"{name} cannot be used ({error})", 'pip install "deepinfer[serve]"')
    if not missing:
        yield Finding("ok", f"packages are there: {', '.join(wanted)}")
    yield from _versions()
    return missing


def _versions() -> Iterator[Finding]:
    try:
        own, codec = version("deepinfer"), version("deepseek-recipe")
    except PackageNotFoundError:
        return
    if own != codec:
        advice = f'pip install "deepseek-recipe=={own}"'
        yield Finding("fail", f"deepinfer is {own}, its codec deepseek-recipe {codec}; they must be the same", advice)


def _open_files() -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < _LEAST_FILES:
        yield Finding("warn", f"at most {limit} open files, one per connection", f"ulimit -n {_LEAST_FILES}")
    else:
        yield Finding("ok", f"{limit} open files, one per connection")


def _settings(settings: ServeSettings) -> Generator[Finding, None, bool]:
    from deepinfer.launch import build_engine, resolve_config

    try:
        config = resolve_config(settings)
        engine = build_engine(settings)
        if settings.engine == "remote":
            yield from _upstreams(engine)
        model = engine.describe()
    except (UsageError, CommandError, EngineError) as error:
        yield Finding("fail", "the settings do not work", str(error))
        return False
    except ModuleNotFoundError as error:
        yield Finding("fail", f"{error.name} is not installed", 'pip install "deepinfer[serve]"')
        return False
    names = ", ".join(config.model_names)
    yield Finding("ok", f"{settings.engine} engine, {model.context_length} tokens of context, served as {names}")
    aliases = ", ".join(f"{alias} = {name}" for alias, name in config.model_aliases)
    yield Finding("ok", f"aliases: {aliases or 'none; Claude Code as it is needs --model-alias ' + repr('claude-*')}")
    return True


def _upstreams(engine: Engine) -> Iterator[Finding]:
    """Ask every upstream what it is. Raises `EngineError` if none can be used."""
    from deepinfer.backends.remote.engine import RemoteEngine

    assert isinstance(engine, RemoteEngine)

    async def ask() -> list[str]:
        await engine.start()
        ways = [upstream.way for upstream in engine.upstreams]
        await engine.stop()
        return ways

    for upstream, way in zip(engine.upstreams, asyncio.run(ask()), strict=True):
        if upstream.found is None:
            yield Finding("warn", f"upstream {upstream.name} cannot be used", upstream.fault or "")
        else:
            yield Finding("ok", f"upstream {upstream.name} is {way}, model {upstream.found.model}")
            for warning in upstream.found.warnings:
                yield Finding("warn", f"upstream {upstream.name}", warning)


def _port(settings: ServeSettings) -> Iterator[Finding]:
    from deepinfer.server.serve import BindError, bind_socket

    try:
        bind_socket(settings.host, settings.port).close()
    except BindError as error:
        yield Finding("fail", "the address is not free", str(error))
    else:
        yield Finding("ok", f"{settings.host}:{settings.port} is free")


def _access(settings: ServeSettings) -> Iterator[Finding]:
    from deepinfer.launch import is_open_to_all

    if is_open_to_all(settings):
        advice = "pass --api-key-file, and put a proxy with TLS in front"
        yield Finding("warn", f"everyone who reaches {settings.host} may ask", advice)
    for flag, name in (("--api-key-file", settings.api_key_file), ("--history-key", settings.history_key)):
        path = None if name is None else Path(name)
        if path is not None and path.is_file() and os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH):
            yield Finding("warn", f"others on this machine can read the file of {flag}", f"chmod 600 {path}")
    if settings.log_prompts:
        yield Finding("warn", "prompts and answers are logged", "leave out --log-prompts unless that is meant")


def _answers(settings: ServeSettings) -> Iterator[Finding]:
    if settings.history_key is None:
        advice = "openssl rand -hex 32 > history.key, and --history-key history.key, for longer cache hits"
        yield Finding("ok", "token-faithful history is off", advice)


def _store(settings: ServeSettings, environment: Mapping[str, str]) -> Iterator[Finding]:
    from deepinfer.server.responses.store.interface import StoreError, UnwritableError
    from deepinfer.server.responses.store.opening import examine_store

    if not settings.stored_responses:
        yield Finding("ok", "no responses are kept: previous_response_id and background are refused")
        return
    try:
        yield Finding("ok", f"responses are kept in {examine_store(settings.response_store, environment)}")
    except UnwritableError as error:
        yield Finding("warn", "responses are kept in memory, and gone with the server", str(error))
    except StoreError as error:
        yield Finding("fail", "responses cannot be kept", str(error))
