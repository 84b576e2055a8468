"""Matrix products, batch-invariant or free.

A library may add up a row's products in another order when more rows are multiplied with it. The invariant form
therefore always makes the same call: tiles of `TILE` rows, padded with zeros, each a product of one fixed shape. Then a
row's bits depend on nothing but the row; that its place in the tile does not matter either is tested. Cost: up to
`TILE` times the arithmetic for a single row; less in time, as the weights are read once either way.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepinfer.model.quantization import fake_fp8
from deepinfer.model.weights import weight

TILE = 8


class Linear(nn.Module):
    """Product with `weight` [outputs, inputs]. `rounds_inputs`: as the release stores this weight in FP8 or FP4.

    `invariant` chooses the form, `quantizes` whether inputs are rounded to FP8 first; the model sets both.
    """

    def __init__(self, inputs: int, outputs: int, *, rounds_inputs: bool = True) -> None:
        super().__init__()
        self.weight = weight(outputs, inputs)
        self.rounds_inputs = rounds_inputs
        self.invariant = True
        self.quantizes = False

    def forward(self, rows: Tensor) -> Tensor:
        """Map `rows` [rows, inputs] to [rows, outputs]."""
        if self.quantizes and self.rounds_inputs:
            rows = fake_fp8(rows)
        return tiled(rows, self.weight) if self.invariant else functional.linear(rows, self.weight)


class GroupedLinear(Linear):
    """`groups` products side by side: the weight [groups * outputs, inputs] holds one matrix after the other."""

    def __init__(self, inputs: int, outputs: int, *, groups: int) -> None:
        super().__init__(inputs, groups * outputs)
        self.groups = groups

    def forward(self, rows: Tensor) -> Tensor:
        """Map `rows` [rows, groups, inputs] to [rows, groups * outputs]."""
        if self.quantizes and self.rounds_inputs:
            rows = fake_fp8(rows)
        product = tiled if self.invariant else functional.linear
        weights = self.weight.chunk(self.groups)
        return torch.cat([product(rows[:, group], part) for group, part in enumerate(weights)], dim=-1)


def tiled(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return `rows` [rows, inputs] times `matrix` [outputs, inputs] transposed, in tiles."""
    outputs, inputs = matrix.shape
    if outputs == 1:
        # Libraries take another routine for a single column, in which the place of a row does matter.
        return (rows * matrix).sum(-1, keepdim=True)
    count = -(-len(rows) // TILE)
    missing = count * TILE - len(rows)
    tiles = (functional.pad(rows, (0, 0, 0, missing)) if missing else rows).reshape(count, TILE, inputs)
    product = torch.bmm(tiles, matrix.t().expand(count, inputs, outputs))
    return product.view(count * TILE, outputs)[: len(rows)]
