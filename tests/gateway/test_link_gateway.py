"""A gateway and an upstream, both real: the link between them, and what goes on where something is in its way."""

from __future__ import annotations

import re
import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deepinfer.link import PATH
from tests.e2e.server_process import ServerProcess, chat_body, eventually
from tests.gateway.conftest import StartServer
from tests.gateway.test_gateway import PATHS, body_of, masked


class Relay:
    """Stands between a gateway and its upstream and changes what goes there; `cut` breaks all connections."""

    def __init__(self, server: ServerProcess, *, passes_upgrades: bool) -> None:
        self._target = server.address
        self._passes_upgrades = passes_upgrades
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Those that come while others are cut stay.
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        with self._lock:
            cut, self._open = self._open, []
        for one in cut:
            with_shutdown(one)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            with self._lock:
                self._open += [near, far]
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(1 << 16)
                    if source is near and not self._passes_upgrades:
                        data = re.sub(rb"(?i)\r\n(connection: upgrade|upgrade:[^\r]*)", b"", data)
                    (far if source is near else near).sendall(data)
                    if not data:
                        return
        except (OSError, ValueError):
            return
        finally:
            with_shutdown(near)
            with_shutdown(far)


def with_shutdown(one: socket.socket) -> None:
    """Close a socket that another thread may wait for."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()


@contextmanager
def relayed(server: ServerProcess, *, passes_upgrades: bool = True) -> Iterator[Relay]:
    relay = Relay(server, passes_upgrades=passes_upgrades)
    try:
        yield relay
    finally:
        relay.close()


@pytest.fixture
def start_behind(tmp_path: Path) -> Iterator[StartServer]:
    """Starts gateways in front of addresses."""
    started: list[ServerProcess] = []

    def start(*urls: str) -> ServerProcess:
        flags = [word for url in urls for word in ("--upstream", url)]
        started.append(ServerProcess(tmp_path / f"behind{len(started)}.log", "--engine", "remote", *flags).__enter__())
        return started[-1]

    yield start
    for server in started:
        server.__exit__(None, None, None)


def count_of(server: ServerProcess, route: str, status: int = 200) -> float:
    found = re.search(rf'route="{re.escape(route)}",status="{status}"}} (\S+)', server.http.get("/metrics").text)
    return 0.0 if found is None else float(found[1])


def test_all_goes_over_one_link(start_upstream: StartServer, start_gateway: StartServer) -> None:
    upstream = start_upstream()
    gateway = start_gateway(upstream)
    for protocol, path in PATHS.items():
        masked(gateway, path, body_of(protocol, "Hello"))
    assert gateway.http.post(PATHS["chat"], json=chat_body("Hello", n=3)).status_code == 200
    assert (count_of(upstream, PATH), count_of(upstream, PATH, 101)) == (6, 1)
    assert count_of(upstream, "/v1/completions") == 0
    # The gateway's own names for what it asks.
    assert re.search(rf"path={PATH} status=200 .*request_id=chatcmpl-\w+/2", upstream.log)


def test_a_way_that_passes_no_upgrades_costs_only_the_link(
    start_upstream: StartServer, start_behind: StartServer
) -> None:
    upstream = start_upstream()
    with relayed(upstream, passes_upgrades=False) as relay:
        gateway = start_behind(relay.url)
        for protocol, path in PATHS.items():
            body = body_of(protocol, "Hello")
            # Once for the cache, so that all later ones find as much in it.
            masked(upstream, path, body)
            assert masked(gateway, path, body) == masked(upstream, path, body)
        assert (count_of(upstream, PATH, 101), count_of(upstream, PATH, 426)) == (0, 1)
        assert count_of(upstream, "/v1/completions") == 3


def test_a_broken_link_ends_its_streams_and_is_replaced(start_upstream: StartServer, start_behind: StartServer) -> None:
    upstream = start_upstream()
    with relayed(upstream) as relay:
        gateway = start_behind(relay.url)
        with gateway.http.stream("POST", PATHS["chat"], json=chat_body("never end", stream=True)) as response:
            lines = response.iter_lines()
            while '" so' not in next(lines):
                pass
            relay.cut()
            rest = "\n".join(lines)
        assert f'"error":{{"message":"upstream {relay.url}: the connection broke' in rest
        eventually(lambda: upstream.health()["running"] == 0)
        eventually(lambda: count_of(upstream, PATH, 101) == 2)
        eventually(lambda: gateway.gauge(f'deepinfer_upstream_ready{{upstream="{relay.url}"}}') == 1)
        assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
        # One between requests is replaced as well, and nobody notices.
        relay.cut()
        assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
        eventually(lambda: count_of(upstream, PATH, 101) == 3)


def test_an_upstream_that_stops_in_order_breaks_nothing(
    start_upstream: StartServer, start_gateway: StartServer
) -> None:
    first, second = start_upstream(), start_upstream()
    gateway = start_gateway(first, second)
    body = chat_body("never end", stream=True, max_tokens=150)
    with httpx.Client(timeout=60) as client, client.stream("POST", gateway.url + PATHS["chat"], json=body) as response:
        lines = response.iter_lines()
        while '" so' not in next(lines):
            pass
        leaving, staying = (first, second) if first.health()["running"] else (second, first)
        leaving.process.send_signal(signal.SIGTERM)
        eventually(lambda: gateway.gauge(f'deepinfer_upstream_ready{{upstream="{leaving.url}"}}') == 0)
        for _ in range(4):
            assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
        rest = "\n".join(lines)
    assert '"finish_reason":"length"' in rest and '"error"' not in rest
    assert leaving.process.wait(timeout=30) == 0
    assert count_of(staying, PATH) == 4
