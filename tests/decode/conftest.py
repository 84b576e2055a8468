"""A server of prepared answers and the official clients that read from it."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from tests.decode.sdk_server import SdkServer


@pytest.fixture(scope="module")
def server() -> Iterator[SdkServer]:
    """A server of prepared answers."""
    with SdkServer() as server:
        yield server


@pytest.fixture(scope="module")
def openai_client(server: SdkServer) -> Iterator[openai.OpenAI]:
    """OpenAI's client of that server."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(server: SdkServer) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client of that server."""
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=20) as client:
        yield client
