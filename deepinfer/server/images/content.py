"""What a file is, by its content: name and declared type count for nothing. Decodes no pixels."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Final

from PIL import Image, UnidentifiedImageError

_FORMATS: Final = ("JPEG", "PNG", "GIF", "WEBP")


class NotAnImageError(Exception):
    """The bytes are not an image that the model reads. The message says what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """An image as it came: the bytes, the format ("JPEG", "PNG", "GIF", "WEBP") and the size in pixels."""

    content: bytes
    format: str
    width: int
    height: int


def read_image(content: bytes) -> ImageFile:
    """Read an image's header. Raises `NotAnImageError`. Its cost does not depend on the number of pixels."""
    try:
        with warnings.catch_warnings():
            # The caller limits the sides; nothing is decoded here, however many pixels are announced.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
                format_name = image.format
    except UnidentifiedImageError:
        raise NotAnImageError(f"begins with {content[:8].hex(' ') or 'nothing'}, which no {_names()} does") from None
    except Image.DecompressionBombError:
        raise NotAnImageError("announces more pixels than any image may have") from None
    except Exception as error:
        # Damaged headers come out of the library in exceptions of many kinds.
        raise NotAnImageError(f"is damaged ({type(error).__name__})") from None
    if format_name is None or width < 1 or height < 1:
        raise NotAnImageError(f"is {width} by {height} pixels; it must have at least one")
    return ImageFile(content=content, format=format_name, width=width, height=height)


def _names() -> str:
    return ", ".join(_FORMATS[:-1]) + f" or {_FORMATS[-1]}"
