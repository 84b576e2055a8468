"""An image is what its content says, and damage is said in words."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from deepinfer.server.images.content import NotAnImageError, read_image


def encoded(format_name: str, size: tuple[int, int] = (30, 20)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size).save(out, format_name)
    return out.getvalue()


def png_that_announces(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "WEBP"])
def test_reads_the_formats_of_the_model(name: str) -> None:
    file = read_image(encoded(name))
    assert (file.format, file.width, file.height) == (name, 30, 20)


@pytest.mark.parametrize("name", ["BMP", "TIFF", "ICO", "PDF"])
def test_refuses_other_formats_whatever_they_are_called(name: str) -> None:
    with pytest.raises(NotAnImageError, match="which no JPEG, PNG, GIF or WEBP does"):
        read_image(encoded(name))


@pytest.mark.parametrize("size", [(60_000, 60_000), (2_000_000_000, 2), (100_000, 1)])
def test_a_bomb_is_measured_without_being_unpacked(size: tuple[int, int]) -> None:
    try:
        file = read_image(png_that_announces(*size))
    except NotAnImageError as error:
        assert "announces more pixels" in str(error)
    else:
        assert (file.width, file.height) == size


def test_no_pixels_is_no_image() -> None:
    with pytest.raises(NotAnImageError):
        read_image(png_that_announces(0, 5))


@given(
    content=st.binary(max_size=200),
    head=st.sampled_from([encoded(name)[:40] for name in ("JPEG", "PNG", "GIF", "WEBP")]),
)
def test_any_bytes_are_an_image_or_refused(content: bytes, head: bytes) -> None:
    for data in (content, head + content, head[: len(content)]):
        try:
            file = read_image(data)
        except NotAnImageError:
            continue
        assert file.width >= 1 and file.height >= 1
