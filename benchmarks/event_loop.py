"""How late the server's event loop is while many streams run: `python benchmarks/event_loop.py`.

The server runs here with the scripted engine, its clients in processes of their own. A timer wakes every 5 ms; how much
later it really wakes is what every other client of the server waits. Prints the median and the 99th percentile for each
number of streams, first for the idle loop, and the share of a core that this process got: where it is below what the
streams need, other programs held the loop up.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from contextlib import suppress

import httpx
import uvloop

import deepseek_recipe as recipe
from deepinfer.backends.scripted import Script, ScriptedEngine
from deepinfer.core import ModelDescription
from deepinfer.server.config import ServerConfig
from deepinfer.server.serve import address_of, bind_socket, serve

_TICK = 0.005
_CLIENT_PROCESSES = 2
_MODEL = ModelDescription(name="m", recipe_version="v4.1", vocabulary_size=129280, context_length=1 << 20)


def main() -> None:
    """Run the server or, as a process of its own, a part of its clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="0,32,128", help="numbers of streams, with commas (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15, help="how long each is measured (%(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.02, help="time between tokens (%(default)s)")
    parser.add_argument("--read", nargs=2, metavar=("URL", "STREAMS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        asyncio.run(read_streams(arguments.read[0], int(arguments.read[1])))
        return
    for streams in map(int, arguments.streams.split(",")):
        late, share = uvloop.run(measure(streams, arguments.seconds, arguments.step_seconds))
        figures = f"p50 {quantile(late, 0.5):6.2f} ms, p99 {quantile(late, 0.99):6.2f} ms"
        print(f"{streams:4} streams: {figures}, {share:4.0%} of a core", flush=True)


async def measure(streams: int, seconds: float, step_seconds: float) -> tuple[list[float], float]:
    """Serve `streams` clients and return how late each tick was, in milliseconds, and the share of a core it took."""
    words = recipe.Tokenizer.built_in("v4.1").encode("Thinking.</think>" + "and so on " * 50_000, special=True)
    script = Script(token_ids=tuple(words), delay_seconds=step_seconds)
    engine = ScriptedEngine(lambda request: script, _MODEL)
    listener = bind_socket("127.0.0.1", 0)
    serving = asyncio.create_task(serve(engine, ServerConfig(model_names=("m",), shutdown_seconds=0), listener, None))
    shares = [
        streams // _CLIENT_PROCESSES + (place < streams % _CLIENT_PROCESSES) for place in range(_CLIENT_PROCESSES)
    ]
    command = [sys.executable, __file__, "--read", address_of(listener)]
    clients = [subprocess.Popen([*command, str(share)]) for share in shares if share]
    try:
        while engine.health().running < streams:
            assert all(client.poll() is None for client in clients), "a client process ended"
            await asyncio.sleep(0.05)
        before = time.process_time()
        return await ticks(seconds), (time.process_time() - before) / seconds
    finally:
        for client in clients:
            client.kill()
            client.wait()
        while engine.health().running:
            await asyncio.sleep(0.05)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def ticks(seconds: float) -> list[float]:
    """Wake every `_TICK` seconds; by how many milliseconds each was late."""
    late = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        await asyncio.sleep(_TICK)
        late.append(1000 * (time.perf_counter() - started - _TICK))
    return late


async def read_streams(url: str, streams: int) -> None:
    """Read `streams` answers until this process is ended."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client:
        await asyncio.gather(*(read_stream(client) for _ in range(streams)))


async def read_stream(client: httpx.AsyncClient) -> None:
    """Read one answer."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        async for _ in response.aiter_raw():
            pass


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    return sorted(values)[int(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
