"""The vocabulary cut into segments, so that a search over 129280 tokens becomes one over 1010 and one over 128."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

SEGMENT = 128


def segments(values: Tensor, *, fill: float) -> Tensor:
    """View `values` [rows, vocabulary] as [rows, segments, SEGMENT], padded with `fill` where it does not fit."""
    rest = -values.shape[-1] % SEGMENT
    if rest:
        values = functional.pad(values, (0, rest), value=fill)
    return values.view(len(values), -1, SEGMENT)


def pick(values: Tensor, places: Tensor) -> Tensor:
    """Return element `places[row]` of each row, along the second dimension."""
    return values[torch.arange(len(values)), places]


def largest(cut: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest of each row of `cut` [rows, segments, SEGMENT] and their places in the row.

    They lie in the `count` segments of largest maximum.
    """
    best = cut.amax(-1).topk(min(count, cut.shape[1])).indices
    candidates = cut.gather(1, best[:, :, None].expand(-1, -1, SEGMENT)).flatten(1)
    values, places = candidates.topk(count)
    return values, best.gather(1, places // SEGMENT) * SEGMENT + places % SEGMENT
