"""The life of a server process: socket, engine, signals, orderly end. Knows nothing of flags.

On the first signal the server stops accepting and lets running answers finish, those in the background too; after
`shutdown_seconds` they are ended with an error their clients can read. A second interrupt ends them at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

import deepseek_recipe as recipe
from deepinfer.core import Engine
from deepinfer.prompt_format import prompt_format
from deepinfer.server.app import build_application
from deepinfer.server.config import ServerConfig
from deepinfer.server.generation import LiveGenerations
from deepinfer.server.http_protocol import BoundedHttpProtocol
from deepinfer.server.progress import loading_bar
from deepinfer.server.responses.store.interface import ResponseStore
from deepinfer.server.services import build_services

logger = logging.getLogger(__name__)

# Time for ended answers to reach their clients before the process stops waiting for them.
_FLUSH_SECONDS: Final = 5
_BACKLOG: Final = 2048
# Longer than clients keep idle connections, so that it is they who close them and none is lost in between.
_KEEP_ALIVE_SECONDS: Final = 75


class BindError(Exception):
    """The address cannot be listened on. The message says what to do."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind `host` and `port`; port 0 takes a free one. Raises `BindError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindError(
            f"cannot listen on host {host!r}: {error.strerror}; pass --host with one of this machine"
        ) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        advice = "stop what listens there, or pass another --port (0 takes a free one)"
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror}; {advice}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """Write the address of a bound socket as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(engine: Engine, config: ServerConfig, listener: socket.socket, store: ResponseStore | None) -> None:
    """Start the engine and answer on `listener` until a signal, then let go of `store`.

    Raises `EngineError` if the engine does not start.
    """
    async with loading_bar(config.model_names[0], engine.health):
        await engine.start()
    try:
        # Loaded now, so that the first request does not wait for it.
        await asyncio.to_thread(recipe.Tokenizer.built_in, prompt_format(engine.describe().recipe_version))
        services = build_services(engine, config, store)
        # What is loaded now stays: no collection has to look through it again while answers wait.
        gc.collect()
        gc.freeze()
        settings = uvicorn.Config(
            build_application(services),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Nothing here asks where a client is.
            proxy_headers=False,
            ws="none",
            http=BoundedHttpProtocol,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(config.shutdown_seconds) + _FLUSH_SECONDS,
        )
        looking_after = asyncio.create_task(services.responses.look_after_runs())
        await _Server(settings, services.live, config.shutdown_seconds).serve(sockets=[listener])
        await services.responses.aclose()
        looking_after.cancel()
        await services.images.aclose()
    finally:
        await engine.stop()


class _Server(uvicorn.Server):
    """uvicorn's server with our ready line and our way to stop; the process ends with status 0 after a signal."""

    def __init__(self, settings: uvicorn.Config, live: LiveGenerations, shutdown_seconds: float) -> None:
        super().__init__(settings)
        self._live = live
        self._shutdown_seconds = shutdown_seconds

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_on, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            print(f"deepinfer is ready at {address_of(listener)}", flush=True)

    def _stop_on(self, number: int) -> None:
        if self.should_exit:
            self._abort_all()
            return
        logger.info("%s: letting running answers finish for %g s", signal.Signals(number).name, self._shutdown_seconds)
        self.should_exit = True
        self._live.draining = True
        asyncio.get_running_loop().call_later(self._shutdown_seconds, self._abort_all)

    def _abort_all(self) -> None:
        count = self._live.abort_all()
        if count:
            logger.warning("ended %d running answers to shut down", count)


def run(engine: Engine, config: ServerConfig, listener: socket.socket, store: ResponseStore | None) -> None:
    """Serve in a new event loop: uvloop where it runs."""
    if sys.platform == "win32":
        asyncio.run(serve(engine, config, listener, store))
        return
    import uvloop

    uvloop.run(serve(engine, config, listener, store))
