"""Makes compressed keys: one entry per group of `ratio` tokens, weighted channel by channel by a learned gate.

Source: architecture notes of DeepSeek-V4.1, compressor. No overlap between groups, no learned position term.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Batch
from deepinfer.model.config import ModelConfig
from deepinfer.model.linear import Linear
from deepinfer.model.norm import RmsNorm
from deepinfer.model.quantization import fake_fp4_fine
from deepinfer.model.rope import Rotary, rotate


@dataclass(frozen=True, slots=True)
class Entries:
    """Finished entries of a batch: normalised, not rotated `latents` [entries, width], the position of each group's
    first token, and where in the cache each goes."""

    latents: Tensor
    positions: Tensor
    places: Tensor


class Compressor(nn.Module):
    """e = sum of softmax(W_gate h) * (W_kv h), sum and softmax over the group; c = RMS(e). Ratio 1: c = RMS(W_kv h)."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.ratio = config.compress_ratios[layer]
        self.quantizes = config.quantization.caches
        self.wkv = Linear(config.hidden_size, config.head_dim, rounds_inputs=False)
        if self.ratio > 1:
            self.wgate = Linear(config.hidden_size, config.head_dim, rounds_inputs=False)
        self.norm = RmsNorm(config.head_dim, config.rms_norm_eps)

    def forward(self, rows: Tensor, batch: Batch, cache: ModelCache, rotary: Rotary) -> Entries:
        """Compress `rows` [rows, hidden], the layer's attention input, and store what is finished."""
        finished = torch.nonzero((batch.positions + 1) % self.ratio == 0)[:, 0]
        positions = batch.positions[finished] + (1 - self.ratio)
        entries = Entries(
            latents=self.norm(self._groups(rows, batch, cache, finished)),
            positions=positions,
            places=entry_places(batch, cache, finished, positions // self.ratio, self.ratio),
        )
        keys = rotate(entries.latents, rotary.angles(entries.positions))
        keys = fake_fp4_fine(keys) if self.quantizes else keys
        cache.compressed[self.layer].index_copy_(0, entries.places, keys)
        return entries

    def _groups(self, rows: Tensor, batch: Batch, cache: ModelCache, finished: Tensor) -> Tensor:
        if self.ratio == 1:
            latents: Tensor = self.wkv(rows)
            return latents[finished]
        assert batch.grouped is not None
        states = torch.cat([self.wgate(rows), self.wkv(rows)], dim=-1)
        ring = cache.groups[self.layer]
        places = batch.grouped.places[finished, -self.ratio :]
        scores, values = batch.grouped.source(states, ring)[places].chunk(2, dim=-1)
        batch.grouped.keep(states, ring)
        weights = torch.exp(scores - scores.amax(1, keepdim=True))
        return (weights * values).sum(1) / weights.sum(1)


def entry_places(batch: Batch, cache: ModelCache, rows: Tensor, entries: Tensor, ratio: int) -> Tensor:
    """Rows of the cache that hold `entries` [count] of the sequences of `rows` [count]."""
    per_block = cache.layout.block_size // ratio
    return batch.tables[rows, entries // per_block] * per_block + entries % per_block
