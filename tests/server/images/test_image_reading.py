"""The images of a request: all limits, named with the image's path, and their places in the prompt."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import deepseek_recipe as recipe
from deepinfer.server.errors import HttpError
from deepinfer.server.images.resolve import ImageLimits, ImageReader, place_images
from tests.server.images.test_image_content import encoded
from tests.server.images.test_image_fetch import answer, serving

SMALL = ImageLimits(
    max_count=4,
    max_file_bytes=3000,
    max_total_bytes=2000,
    max_side=100,
    max_side_of_many=50,
    many=3,
    max_url_length=200,
)


def data_url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def request(*urls: str, detail: str = "high") -> recipe.Encoded:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "What is this?"}]
    parts += [{"type": "image_url", "image_url": {"url": url, "detail": detail}} for url in urls]
    body = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": parts}]}
    return recipe.encode(body, "chat_completions")


async def refusal(*urls: str) -> HttpError:
    reader = ImageReader(private_hosts=True, limits=SMALL)
    try:
        with pytest.raises(HttpError) as caught:
            await reader.read(request(*urls).images)
    finally:
        await reader.aclose()
    assert caught.value.status_code == 400
    assert caught.value.param == ".messages[0]"
    assert ".messages[0]" in str(caught.value)
    return caught.value


async def test_images_stand_where_their_placeholders_were() -> None:
    first, second = encoded("PNG", (30, 20)), encoded("JPEG", (90, 10))
    async with serving({"/second": answer("200 OK", second)}.get) as url:
        encoded_request = request(data_url(first), f"{url}/second")
        reader = ImageReader(private_hosts=True, limits=SMALL)
        files = await reader.read(encoded_request.images)
        await reader.aclose()
    assert [(file.content, file.width, file.height) for file in files] == [(first, 30, 20), (second, 90, 10)]
    image_id = encoded_request.image_token_id
    assert image_id is not None
    ids = encoded_request.token_ids.tolist()
    placed = place_images(ids, list(zip(encoded_request.images, files, strict=True)), image_id)
    places = [place for place, token_id in enumerate(ids) if token_id == image_id]
    assert len(places) == 2
    # 666 by 444 pixels: 11 rows of 16 columns; 1632 by 181: 5 rows of 39.
    counts = [11 * 17 + 2, 5 * 40 + 2]
    assert placed == [
        *ids[: places[0]], *[image_id] * counts[0], *ids[places[0] + 1 : places[1]], *[image_id] * counts[1],
        *ids[places[1] + 1 :],
    ]  # fmt: skip


async def test_every_limit_is_named() -> None:
    small, large = data_url(encoded("PNG", (40, 40))), data_url(encoded("PNG", (101, 10)))
    middle = data_url(encoded("PNG", (60, 60)))
    assert (await refusal(*[small] * 5)).code == "too_many_images"
    assert "101 by 10" in str(await refusal(large))
    assert (await refusal(small, small, middle)).code == "image_too_large"
    assert (await refusal(data_url(b"no image"))).code == "invalid_image"
    assert (await refusal(data_url(encoded("PNG") + bytes(2000)))).code == "images_too_large"
    assert (await refusal("https://example.com/" + "a" * 200)).code == "invalid_image_url"


async def test_a_file_that_cannot_be_had_is_named() -> None:
    async with serving({"/long": answer("200 OK", bytes(3001))}.get) as url:
        assert "is longer than 3000 bytes" in str(await refusal(f"{url}/long"))
