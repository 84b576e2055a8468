"""From the images that a request names to the tokens they take in its prompt. Owns the limits on them.

Nothing is decoded: no engine here looks at pixels yet. What a model would be given is checked and counted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import deepseek_recipe as recipe
from deepinfer.core import ModelDescription
from deepinfer.server.errors import HttpError
from deepinfer.server.images.content import ImageFile, NotAnImageError, read_image
from deepinfer.server.images.fetch import FetchError, ImageFetcher
from deepinfer.server.images.tokens import image_tokens

MEBIBYTE: Final = 1024 * 1024
# Fetched at once for one request; the rest wait.
_FETCHES: Final = 8
# Below this length, decoding takes less time than handing it to a thread.
_THREAD_CHARACTERS: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """What a request's images may be: those of the official API.

    `max_count`: images of a request; `max_file_bytes`, `max_total_bytes`: of one and of all of them; `max_side`: in
    pixels, `max_side_of_many` from `many` images on; `max_url_length`: characters; `fetch_seconds`: for one image.
    """

    max_count: int = 600
    max_file_bytes: int = 32 * MEBIBYTE
    max_total_bytes: int = 64 * MEBIBYTE
    max_side: int = 8192
    max_side_of_many: int = 4096
    many: int = 15
    max_url_length: int = 8192
    fetch_seconds: float = 60.0


class ImageReader:
    """Reads the images of requests; `aclose` ends its connections."""

    def __init__(self, *, private_hosts: bool, limits: ImageLimits | None = None) -> None:
        self._limits = limits or ImageLimits()
        self._fetcher = ImageFetcher(
            max_bytes=self._limits.max_file_bytes, seconds=self._limits.fetch_seconds, private_hosts=private_hosts
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._fetcher.aclose()

    async def read(self, images: Sequence[recipe.Image]) -> list[ImageFile]:
        """Fetch and check all images, in their order. Raises `HttpError` that names the image's path and the limit."""
        limits = self._limits
        if len(images) > limits.max_count:
            message = (
                f"{images[limits.max_count].path}: the request has {len(images)} images; at most {limits.max_count}"
            )
            raise _refusal(images[limits.max_count], "too_many_images", message)
        slots = asyncio.Semaphore(_FETCHES)
        total = _Total(limits.max_total_bytes)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._read_one(image, slots, total, len(images))) for image in images]
        except* HttpError as refusals:
            # The first to be found ends the others.
            raise refusals.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _read_one(self, image: recipe.Image, slots: asyncio.Semaphore, total: _Total, count: int) -> ImageFile:
        async with slots:
            content = await self._content(image)
        total.add(image, len(content))
        try:
            file = read_image(content)
        except NotAnImageError as error:
            raise _refusal(image, "invalid_image", f"{image.path}: the image {error}") from None
        limits = self._limits
        most = limits.max_side_of_many if count >= limits.many else limits.max_side
        if max(file.width, file.height) > most:
            message = (
                f"{image.path}: the image is {file.width} by {file.height} pixels; a side may have {most} in a request "
                f"of {count} images"
            )
            raise _refusal(image, "image_too_large", message)
        return file

    async def _content(self, image: recipe.Image) -> bytes:
        if image.kind == "base64":
            return await asyncio.to_thread(_decoded, image) if len(image.data) > _THREAD_CHARACTERS else _decoded(image)
        if len(image.data) > self._limits.max_url_length:
            message = f"{image.path}: the URL has {len(image.data)} characters; at most {self._limits.max_url_length}"
            raise _refusal(image, "invalid_image_url", message)
        try:
            return await self._fetcher.fetch(image.data)
        except FetchError as error:
            raise _refusal(image, "image_not_fetched", f"{image.path}: the image {error}") from None


class _Total:
    """Bytes of a request's images so far."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0

    def add(self, image: recipe.Image, count: int) -> None:
        self._bytes += count
        if self._bytes > self._limit:
            message = f"{image.path}: the images of the request have {self._bytes} bytes or more; at most {self._limit}"
            raise _refusal(image, "images_too_large", message)


async def prompt_ids(encoded: recipe.Encoded, model: ModelDescription, reader: ImageReader) -> Sequence[int]:
    """Ids of a request's prompt, images and all. Raises `HttpError` for those that the model or the server refuses."""
    images = encoded.images
    if not images:
        # No copy: of a million ids, one would hold the interpreter for tens of milliseconds.
        return memoryview(encoded.token_ids)
    if not model.reads_images:
        message = f"{images[0].path}: the model {encoded.model} reads text only; remove the image"
        raise _refusal(images[0], "images_not_supported", message)
    image_id = encoded.image_token_id
    assert image_id is not None
    files = await reader.read(images)
    return place_images(memoryview(encoded.token_ids), list(zip(images, files, strict=True)), image_id)


def place_images(
    token_ids: Sequence[int], images: Sequence[tuple[recipe.Image, ImageFile]], image_id: int
) -> list[int]:
    """Write each image's placeholder, one `image_id` in the prompt, as many times as the image takes tokens."""
    counts = iter([image_tokens(file.width, file.height, low_detail=image.detail == "low") for image, file in images])
    placed: list[int] = []
    for token_id in token_ids:
        placed += [token_id] * next(counts) if token_id == image_id else [token_id]
    return placed


def _decoded(image: recipe.Image) -> bytes:
    try:
        # The codec has checked the alphabet; padding may be missing.
        return base64.b64decode(image.data + "=" * (-len(image.data) % 4), validate=True)
    except binascii.Error:
        raise _refusal(image, "invalid_image", f"{image.path}: the image is not valid base64") from None


def _refusal(image: recipe.Image, code: str, message: str) -> HttpError:
    return HttpError(400, code, message, param=image.path)
