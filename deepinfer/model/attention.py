"""Causal grouped-query attention over paged keys and values, for many sequences of equal span length at once.

Keys are visited in windows of a fixed number of positions with a running maximum and sum (online softmax, Milakov and
Gimelshein 2018, https://arxiv.org/abs/1805.02867). Memory does not grow with the context, and as every window has the
same shape and a wholly masked one changes nothing, a row's result does not depend on which sequences, or how many rows
of its own, are computed beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

WINDOW = 128


def paged_attention(queries: Tensor, keys: Tensor, values: Tensor, *, positions: Tensor, tables: Tensor) -> Tensor:
    """Attend from each query to the positions up to its own.

    queries: [sequences, length, query_heads, head_size]; positions: [sequences, length], int64.
    keys, values: [blocks, block_size, key_value_heads, head_size]; tables: [sequences, table_blocks], int64, where
    entry `i` holds positions `i * block_size` onwards. Returns the shape of `queries`.
    """
    sequences, length, query_heads, head_size = queries.shape
    block_size, key_value_heads = keys.shape[1:3]
    sharing = query_heads // key_value_heads
    grouped = queries.view(sequences, length, key_value_heads, sharing, head_size).permute(0, 2, 1, 3, 4)
    grouped = grouped.reshape(sequences * key_value_heads, length * sharing, head_size) * head_size**-0.5
    highest = grouped.new_full((*grouped.shape[:2], 1), -torch.inf)
    total = torch.zeros_like(highest)
    mixed = torch.zeros_like(grouped)
    window_blocks = -(-WINDOW // block_size)
    window = window_blocks * block_size
    padded = functional.pad(tables, (0, -tables.shape[1] % window_blocks))
    for index, blocks in enumerate(torch.split(padded, window_blocks, dim=1)):
        offsets = torch.arange(index * window, (index + 1) * window)
        hidden = offsets > positions[:, None, :, None, None]
        scores = torch.bmm(grouped, _gather(keys, blocks).transpose(1, 2))
        scores = scores.view(sequences, key_value_heads, length, sharing, window)
        scores = scores.masked_fill_(hidden, -torch.inf).view(*grouped.shape[:2], window)
        # Position 0 is in the first window and visible to all, so the maximum is finite from then on.
        raised = torch.maximum(highest, scores.amax(-1, keepdim=True))
        weights = (scores - raised).exp_()
        shrink = (highest - raised).exp_()
        total = total * shrink + weights.sum(-1, keepdim=True)
        mixed = mixed * shrink + torch.bmm(weights, _gather(values, blocks))
        highest = raised
    mixed = (mixed / total).view(sequences, key_value_heads, length, sharing, head_size)
    return mixed.permute(0, 2, 1, 3, 4).reshape(queries.shape)


def _gather(paged: Tensor, blocks: Tensor) -> Tensor:
    """Rows of a window, [sequences * heads, window, head_size], out of [blocks, block_size, heads, head_size]."""
    return paged[blocks].flatten(1, 2).transpose(1, 2).flatten(0, 1)
