"""Weights without memory: a model is built of shapes alone, and gets its memory when it is loaded or drawn."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def weight(*shape: int, trained: bool = True) -> nn.Parameter:
    """Parameter of `shape` on the meta device; `trained` tells whether it has a gradient."""
    return nn.Parameter(torch.empty(shape, device="meta"), requires_grad=trained)


class Embedding(nn.Module):
    """One row per token: `weight` [vocabulary, width]."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = weight(count, width)

    def forward(self, ids: Tensor) -> Tensor:
        """Rows [..., width] of `ids` [...], int64."""
        return self.weight[ids]
