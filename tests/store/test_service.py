"""What is found of a response while the store still takes it."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from deepinfer.server.errors import HttpError
from deepinfer.server.responses.service import Responses
from deepinfer.server.responses.store.interface import Limits, StoredResponse, StoreError
from deepinfer.server.responses.store.memory import MemoryResponseStore


class SlowStore(MemoryResponseStore):
    """Takes nothing before `go_on`, and then only if it `works`."""

    def __init__(self, *, works: bool) -> None:
        super().__init__(Limits(max_count=10, max_bytes=1000))
        self.go_on, self.works = Event(), works

    def put(self, owner: str, response: StoredResponse) -> None:
        assert self.go_on.wait(20)
        if not self.works:
            raise StoreError("the disk is full")
        super().put(owner, response)


@pytest.mark.parametrize("works", [True, False])
async def test_a_response_made_in_the_background_is_found_before_the_store_has_it(works: bool) -> None:
    store = SlowStore(works=works)
    responses = Responses(store, on_loss=lambda: None)
    response = StoredResponse(id="resp_1", body=b"{}", input_items=b"[]")
    putting = asyncio.create_task(responses.put_run("client", response))
    await asyncio.sleep(0)
    assert await responses.get("client", "resp_1") is response
    with pytest.raises(HttpError):
        await responses.get("another", "resp_1")
    store.go_on.set()
    assert (await putting is None) is works
    assert await responses.get("client", "resp_1") is response
    await responses.aclose()
