"""vLLM dies in the middle of answers. The last of these tests: nothing answers after it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Final

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, eventually
from tests.vllm.protocols import PROTOCOLS, Protocol, events_of
from tests.vllm.vllm_process import CONTEXT, VllmProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

# Tokens; no answer is to end before vLLM does.
_LONG: Final = CONTEXT - 100


def test_streams_end_with_the_error_of_their_protocol(vllm: VllmProcess, gateway: ServerProcess) -> None:
    # All begin at once: vLLM's HTTP side can fall behind its model by seconds, and a request that comes later then
    # waits until the answer before it has ended.
    all_begin, all_stream = Barrier(len(PROTOCOLS)), Barrier(len(PROTOCOLS) + 1)

    def errors(protocol: Protocol) -> list[str]:
        body = protocol.streaming(protocol.body("Talk.", _LONG))
        with httpx.Client(base_url=gateway.url, timeout=60) as client:
            all_begin.wait(10)
            with client.stream("POST", protocol.path, json=body) as response:
                events = iter(events_of(response.iter_lines()))
                for _ in range(5):
                    next(events)
                all_stream.wait(60)
                return [message for event in events if (message := protocol.error(event)) is not None]

    with ThreadPoolExecutor() as threads:
        streams: list[Future[list[str]]] = [threads.submit(errors, protocol) for protocol in PROTOCOLS]
        all_stream.wait(60)
        vllm.kill()
        for stream in streams:
            (message,) = stream.result()
            assert vllm.url in message
    eventually(lambda: gateway.http.get("/ready").status_code == 503)
    for protocol in PROTOCOLS:
        refused = gateway.http.post(protocol.path, json=protocol.body("Hi", 5))
        assert refused.status_code in (503, 529)
        assert vllm.url in refused.json()["error"]["message"]
