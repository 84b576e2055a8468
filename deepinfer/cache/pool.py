"""Owns the tensors that hold keys and values. Knows nothing of which blocks are free or whose they are."""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValuePool:
    """Keys and values of every layer, in blocks.

    `keys[layer]` and `values[layer]` have shape [block_count, block_size, head_count, head_size], float32. The memory
    is zeroed because attention multiplies masked positions by zero, and zero times an uninitialised NaN is NaN.
    """

    def __init__(self, *, layer_count: int, block_count: int, block_size: int, head_count: int, head_size: int) -> None:
        shape = (layer_count, block_count, block_size, head_count, head_size)
        self.keys = torch.zeros(shape)
        self.values = torch.zeros(shape)
        self.block_size = block_size
        self.bytes_per_block = 2 * self.keys[:, 0].nbytes

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store rows [rows, head_count, head_size] at `slots` [rows], int64: block times block_size plus offset."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)

    def copy(self, source: int, target: int) -> None:
        """Copy the keys and values of block `source` into block `target`, in every layer."""
        self.keys[:, target] = self.keys[:, source]
        self.values[:, target] = self.values[:, source]
