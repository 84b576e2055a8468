"""How many tokens an image takes: the rule of the V4.1 vision model. Knows sizes only, no files.

An image is cut into patches of 14 by 14 pixels, 3 by 3 of them a token. A line break ends each row of tokens, and one
token stands before and one after the image: rows * (columns + 1) + 2.
"""

from __future__ import annotations

from math import floor, sqrt
from typing import Final

PATCH: Final = 14
_PATCHES_PER_TOKEN: Final = 3
_TOKEN: Final = PATCH * _PATCHES_PER_TOKEN
# Smaller images are scaled up to about this many pixels.
_LEAST_PIXELS: Final = 544 * 544
MOST_TOKENS: Final = 1024
# An image of low detail is first scaled down to fit into this square.
_LOW_DETAIL_SIDE: Final = 512

Size = tuple[int, int]


def image_tokens(width: int, height: int, *, low_detail: bool = False) -> int:
    """Count the tokens of an image of `width` by `height` pixels, both at least 1; between 3 and 1024."""
    return _count(sent_size(width, height, low_detail=low_detail))


def sent_size(width: int, height: int, *, low_detail: bool = False) -> Size:
    """Width and height in pixels that the model sees an image in."""
    size = (width, height)
    if low_detail:
        scale = min(1.0, _LOW_DETAIL_SIDE / max(size))
        size = (max(1, int(width * scale)), max(1, int(height * scale)))
    size = _in_patches(_scaled_up(size))
    while _count(size) > MOST_TOKENS:
        size = _in_patches(_scaled_up(_scaled_down(size)))
    return size


def _count(size: Size) -> int:
    columns, rows = (-(-side // _TOKEN) for side in size)
    return rows * (columns + 1) + 2


def _scaled_up(size: Size) -> Size:
    width, height = size
    if width * height >= _LEAST_PIXELS:
        return size
    scale = sqrt(_LEAST_PIXELS / (width * height))
    return int(width * scale), int(height * scale)


def _in_patches(size: Size) -> Size:
    width, height = (max(1, -(-side // PATCH)) * PATCH for side in size)
    return width, height


def _scaled_down(size: Size) -> Size:
    """The largest size of the same shape whose tokens are few enough: rows * (columns + 1) = MOST_TOKENS - 2."""
    width, height = size
    shape = height / width
    columns = sqrt((MOST_TOKENS - 2) / shape + 0.25) - 0.5
    rows = columns * shape
    if columns < 1:
        return _TOKEN, (MOST_TOKENS - 2) // 2 * _TOKEN
    if rows < 1:
        return (MOST_TOKENS - 3) * _TOKEN, _TOKEN
    scale = min(floor(columns) * _TOKEN / width, floor(rows) * _TOKEN / height)
    return floor(width * scale / PATCH) * PATCH, floor(height * scale / PATCH) * PATCH
