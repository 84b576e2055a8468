"""A server of prepared answers."""

from collections.abc import Iterator

import pytest

from tests.decode.sdk_server import SdkServer


@pytest.fixture(scope="module")
def server() -> Iterator[SdkServer]:
    """A server of prepared answers."""
    with SdkServer() as server:
        yield server
