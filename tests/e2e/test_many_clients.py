"""Many streaming clients at once: all finish, none gets another's words, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import openai
import pytest

import deepseek_recipe as recipe
from tests.e2e.server_process import ServerProcess, chat_body, eventually

CLIENTS = 64
TOKENS = 200
WARM_UP_TOKENS = 10


async def read_stream(client: openai.AsyncOpenAI, seed: int, max_tokens: int) -> str:
    """Read one seeded answer to its end, which the bias on the end token keeps from coming early."""
    bias = {str(recipe.eos_token_id("v4.1")): -100}
    body = chat_body(f"Client {seed}", seed=seed, max_tokens=max_tokens, temperature=1.0, logit_bias=bias)
    stream = await client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})
    text, finish_reason, tokens = "", None, 0
    async for chunk in stream:
        for choice in chunk.choices:
            text += (choice.delta.content or "") + (getattr(choice.delta, "reasoning_content", None) or "")
            finish_reason = choice.finish_reason or finish_reason
        tokens = chunk.usage.completion_tokens if chunk.usage is not None else tokens
    assert (finish_reason, tokens) == ("length", max_tokens)
    return text


async def read_all(url: str, seeds: Iterable[int], max_tokens: int) -> list[str]:
    """Read one answer per seed, all at once, over connections that are closed afterwards."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300) as client:
        return list(await asyncio.gather(*(read_stream(client, seed, max_tokens) for seed in seeds)))


@pytest.mark.timeout(300)
async def test_streams_do_not_mix_and_leave_nothing_behind(native_server: ServerProcess) -> None:
    seeds = range(CLIENTS)
    alone = [(await read_all(native_server.url, [seed], TOKENS))[0] for seed in (0, 63)]
    beginnings = await read_all(native_server.url, seeds, WARM_UP_TOKENS)
    eventually(lambda: native_server.gauge("deepinfer_http_requests_in_flight") == 1)
    open_files = native_server.gauge("process_open_fds")
    cache_bytes = native_server.gauge("deepinfer_cache_bytes")

    texts = await read_all(native_server.url, seeds, TOKENS)
    assert [texts[0], texts[63]] == alone
    for text, beginning in zip(texts, beginnings, strict=True):
        # A character cut in half by the shorter limit shows as U+FFFD.
        assert text.startswith(beginning.rstrip("\ufffd"))
    assert len(set(beginnings)) == CLIENTS
    eventually(lambda: native_server.gauge("process_open_fds") <= open_files)
    assert native_server.gauge("deepinfer_cache_bytes") == cache_bytes == 0
    assert native_server.health()["running"] == 0
