"""What it costs to keep and to find a response, in each kind of store. Run: python -m benchmarks.store

The stores take turns, so that other work on the machine meets all of them alike. Before measuring each is filled to its
limit, so that every put also removes the oldest. PostgreSQL is the tests' own, on this machine, with fsync on.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from deepinfer.server.responses.store.interface import Limits, ResponseStore, StoredResponse
from deepinfer.server.responses.store.opening import open_store
from tests.store.postgres_server import PostgresServer

_KEPT: Final = 1000
_SIZES: Final = {"4 KB": 4_000, "100 KB": 100_000, "2 MB": 2_000_000}


def main() -> None:
    """Print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200, help="measurements per median (default: %(default)s)")
    rounds: int = parser.parse_args().rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgresServer(durable=True))
        places = {"memory": "memory", "SQLite": str(folder / "responses.sqlite3"), "PostgreSQL": server.new_place()}
        stores = {name: _open(place, stack) for name, place in places.items()}
        print(f"| ms, medians of {rounds} | {' | '.join(stores)} |\n| --- |{' --- |' * len(stores)}")
        for label, size in _SIZES.items():
            kept, found = _measure(stores, size, rounds)
            for action, times in (("put", kept), ("get", found)):
                print(f"| {action}, {label} | {' | '.join(f'{times[name]:.3g}' for name in stores)} |")


def _open(place: str, stack: ExitStack) -> ResponseStore:
    store = open_store(place, Limits(max_count=_KEPT, max_bytes=10**10, max_age=86400.0), {})
    assert store is not None
    stack.callback(store.close)
    for number in range(_KEPT):
        store.put("a", _response(f"resp_{number}", 100))
    return store


def _response(id: str, size: int) -> StoredResponse:
    return StoredResponse(id=id, body=b"x" * (size // 2), input_items=b"y" * (size - size // 2))


def _measure(stores: dict[str, ResponseStore], size: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of putting and of getting, in ms, by store."""
    kept: dict[str, list[float]] = {name: [] for name in stores}
    found: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(rounds):
        response = _response(f"resp_{size}_{number}", size)
        for name, store in stores.items():
            kept[name].append(_milliseconds(partial(store.put, "a", response)))
            found[name].append(_milliseconds(partial(store.get, "a", response.id)))
    return _medians(kept), _medians(found)


def _medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def _milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
