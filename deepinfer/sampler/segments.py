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
