"""vLLM dies in the middle of answers. The last of these tests: nothing answers after it."""

from __future__ import annotations

from contextlib import ExitStack

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, eventually
from tests.vllm.protocols import PROTOCOLS, events_of
from tests.vllm.vllm_process import VllmProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]


def test_streams_end_with_the_error_of_their_protocol(vllm: VllmProcess, gateway: ServerProcess) -> None:
    with ExitStack() as stack:
        streams = []
        for protocol in PROTOCOLS:
            body = protocol.streaming(protocol.body("Talk.", 1900, temperature=1))
            client = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=30))
            response = stack.enter_context(client.stream("POST", protocol.path, json=body))
            streams.append((protocol, iter(events_of(response.iter_lines()))))
        for _, events in streams:
            for _ in range(5):
                next(events)
        vllm.kill()
        for protocol, events in streams:
            messages = [message for event in events if (message := protocol.error(event)) is not None]
            assert len(messages) == 1
            assert vllm.url in messages[0]
    eventually(lambda: gateway.http.get("/ready").status_code == 503)
    for protocol in PROTOCOLS:
        refused = gateway.http.post(protocol.path, json=protocol.body("Hi", 5))
        assert refused.status_code in (503, 529)
        assert vllm.url in refused.json()["error"]["message"]
