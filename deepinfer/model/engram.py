"""Engram: rows of a large table, found by hashing the last tokens, gated into the streams before a layer.

Source: as `engram_hash`. The table is only looked up: it stays in the checkpoint's format and may be memory-mapped.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Batch
from deepinfer.model.config import ModelConfig
from deepinfer.model.engram_hash import HashTable
from deepinfer.model.linear import Linear
from deepinfer.model.numerics import constant, inverse_rms, sigmoid
from deepinfer.model.trace import Trace
from deepinfer.model.weights import weight

LEAST_AGREEMENT = 1e-6


class Table(nn.Module):
    """Rows of width `width`, float, or FP8 with a ue8m0 scale per 32 values; looked up, never multiplied."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = weight(rows, width)
        self.scale: Tensor | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [..., width], float32, of the numbers `rows` [...], int64."""
        values: Tensor = self.weight[rows].float()
        if self.scale is None:
            return values
        scales = self.scale[rows].float()
        return (values.view(*scales.shape, -1) * scales[..., None]).flatten(-2)


class Engram(nn.Module):
    """Table, one projection to a key per stream and a shared value, and the gate."""

    def __init__(self, config: ModelConfig, layer: int, table: HashTable) -> None:
        super().__init__()
        self.layer = layer
        self.table = table
        self.streams, self.hidden = config.hc_mult, config.hidden_size
        self.epsilon = constant(config.rms_norm_eps)
        # A table may be longer than its hash reaches.
        stated = dict(zip(config.engram_layer_ids, config.engram_num_embeddings, strict=False))
        self.embed = Table(stated.get(layer, table.row_count), config.engram_head_dim)
        inputs = table.primes.numel() * config.engram_head_dim
        self.wkv = Linear(inputs, (self.streams + 1) * self.hidden)
        self.q_weight = weight(self.streams, self.hidden)
        self.k_weight = weight(self.streams, self.hidden)

    def forward(self, streams: Tensor, ids: Tensor, images: Tensor | None, trace: Trace | None) -> Tensor:
        """Add to `streams` [rows, n, hidden] what the last compressed ids [rows, longest n-gram] recall.

        Per stream, d = sum(X q k K) / (rms(X) rms(K) sqrt(hidden)) and X += sigmoid(sign(d) sqrt(max(|d|, 1e-6))) V;
        the sign of a zero is that of its bit. Image tokens recall nothing.
        """
        rows = self.table.rows(ids)
        if trace is not None:
            trace.add("engram_rows", self.layer, rows)
        recalled: Tensor = self.wkv(self.embed(rows).flatten(1)).view(-1, self.streams + 1, self.hidden)
        keys, value = recalled[:, :-1], recalled[:, -1:]
        products = streams * inverse_rms(streams, self.epsilon) * keys * inverse_rms(keys, self.epsilon)
        agreement = (products * (self.q_weight * self.k_weight)).sum(-1, keepdim=True) / math.sqrt(self.hidden)
        gate = sigmoid(agreement.abs().clamp_min(LEAST_AGREEMENT).sqrt().copysign(agreement))
        if images is not None:
            gate = gate.masked_fill(images[:, None, None], 0.0)
        return streams + gate * value


def last_ids(batch: Batch, cache: ModelCache, token_map: Tensor, *, pad: int, images: Tensor | None) -> Tensor:
    """Compressed ids [rows, longest n-gram] of each row's last tokens, its own last; its window is updated.

    Before the sequence starts, and from an image token backwards, they are `pad`, the compressed id of the pad token.
    """
    window = batch.tokens
    assert window is not None
    own = token_map[batch.token_ids]
    if images is not None:
        own = own.masked_fill(images, -1)
    ids = window.source(own, cache.tokens)[window.places]
    window.keep(own, cache.tokens)
    broken = (~window.visible | (ids < 0)).flip(1).cumsum(1).flip(1) > 0
    return ids.masked_fill(broken, pad)
