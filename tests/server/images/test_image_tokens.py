"""The token count of an image: the published table, and what holds for every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepinfer.server.images.tokens import MOST_TOKENS, PATCH, image_tokens, sent_size

SIDES = st.integers(1, 8192)


# The official API's published calculator, with its V4.1 setting.
@pytest.mark.parametrize(
    ("size", "sent", "tokens"),
    [
        ((100, 100), (546, 546), 184),
        ((512, 512), (546, 546), 184),
        ((640, 480), (644, 490), 206),
        ((800, 800), (812, 812), 422),
        ((1024, 1024), (1036, 1036), 652),
        ((1280, 720), (1288, 728), 578),
        ((1920, 1080), (1708, 966), 968),
        ((1080, 1920), (966, 1708), 986),
        ((3000, 3000), (1302, 1302), 994),
        ((8192, 100), (8204, 112), 593),
    ],
)
def test_the_published_table(size: tuple[int, int], sent: tuple[int, int], tokens: int) -> None:
    assert sent_size(*size) == sent
    assert image_tokens(*size) == tokens


@given(width=SIDES, height=SIDES)
def test_every_image_is_whole_patches_and_few_enough_tokens(width: int, height: int) -> None:
    sent = sent_size(width, height)
    assert all(side > 0 and side % PATCH == 0 for side in sent)
    assert 3 <= image_tokens(width, height) <= MOST_TOKENS


@pytest.mark.parametrize(("size", "tokens"), [((1, 8192), 1024), ((8192, 1), 1024)])
def test_the_narrowest_images_fill_one_row_or_column(size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(*size) == tokens


def test_low_detail_is_scaled_down_first() -> None:
    assert image_tokens(3000, 3000, low_detail=True) == image_tokens(512, 512) == 184
    assert image_tokens(2048, 1024, low_detail=True) == image_tokens(512, 256)
    assert image_tokens(300, 200, low_detail=True) == image_tokens(300, 200), "a small image is not scaled up to it"
