"""Attention of one layer: a sliding window of its own keys, and the compressed entries that an indexer chose.

Keys are values: one head of keys serves all query heads. Source: architecture notes of DeepSeek-V4.1, attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Batch
from deepinfer.model.compressor import Compressor
from deepinfer.model.config import LayerPlan, LayerRole, ModelConfig
from deepinfer.model.indexer import Indexer
from deepinfer.model.linear import GroupedLinear, Linear
from deepinfer.model.norm import RmsNorm
from deepinfer.model.numerics import constant
from deepinfer.model.quantization import fake_fp8
from deepinfer.model.rope import Rotary, rotate
from deepinfer.model.selection import Selection
from deepinfer.model.trace import Trace
from deepinfer.model.weights import weight

# Rows whose keys are gathered at once: their copies should fit a core's cache.
ROWS = 32


@dataclass(slots=True)
class Shared:
    """What layers of one forward hand on: the newest selection, and the candidates of later selections."""

    selection: Selection | None = None
    candidates: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of each row: `source` [any, width] at `places` [rows, count]; a hidden place must hold a finite key."""

    source: Tensor
    places: Tensor
    visible: Tensor


class Attention(nn.Module):
    """Projections, window keys and the softmax; compressor and indexer where the layer owns them."""

    def __init__(self, config: ModelConfig, plan: LayerPlan) -> None:
        super().__init__()
        self.plan = plan
        self.heads, self.width = config.num_attention_heads, config.head_dim
        self.scale = constant(self.width**-0.5)
        self.quantizes = config.quantization.caches
        epsilon = config.rms_norm_eps
        self.wq_a = Linear(config.hidden_size, config.q_lora_rank)
        self.q_norm = RmsNorm(config.q_lora_rank, epsilon)
        self.wq_b = Linear(config.q_lora_rank, self.heads * self.width)
        self.wkv = Linear(config.hidden_size, self.width)
        self.kv_norm = RmsNorm(self.width, epsilon)
        self.attn_sink = weight(self.heads)
        inputs = self.heads * self.width // config.o_groups
        self.wo_a = GroupedLinear(inputs, config.o_lora_rank, groups=config.o_groups)
        self.wo_b = Linear(config.o_groups * config.o_lora_rank, config.hidden_size)
        if plan.role is LayerRole.FULL:
            self.compressor = Compressor(config, plan.layer)
        if plan.index_source == plan.layer:
            self.indexer = Indexer(config, plan)

    def forward(
        self,
        rows: Tensor,
        angles: tuple[Tensor, Tensor],
        batch: Batch,
        cache: ModelCache,
        rotary: Rotary,
        shared: Shared,
        trace: Trace | None,
    ) -> Tensor:
        """Map the normalised inputs `rows` [rows, hidden] to outputs of the same shape, and update the caches.

        `angles` are those of the rows, `rotary` gives those of the compressed entries.
        """
        latents = self.q_norm(self.wq_a(rows))
        keys = self.window_keys(rows, angles)
        ring = cache.windows[self.plan.layer]
        parts = [Keys(batch.local.source(keys, ring), batch.local.places, batch.local.visible)]
        batch.local.keep(keys, ring)
        if self.plan.role is LayerRole.FULL:
            entries = self.compressor(rows, batch, cache, rotary)
            self.indexer.store_keys(entries, cache, rotary)
        if self.plan.index_source == self.plan.layer:
            candidates = shared.candidates if self.plan.obeys_candidates else None
            shared.selection, limit = self.indexer(rows, latents, angles, batch, cache, candidates, trace)
            shared.candidates = limit if limit is not None else shared.candidates
        if self.plan.kv_source is not None:
            assert shared.selection is not None
            source = cache.compressed[self.plan.kv_source]
            parts.append(Keys(source, shared.selection.places, shared.selection.visible))
        return self.attend(latents, angles, parts, trace)

    def window_keys(self, rows: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Keys of the window [rows, width]: RMS(W_kv h), rotated, FP8."""
        keys = rotate(self.kv_norm(self.wkv(rows)), angles)
        return fake_fp8(keys) if self.quantizes else keys

    def attend(self, latents: Tensor, angles: tuple[Tensor, Tensor], parts: list[Keys], trace: Trace | None) -> Tensor:
        """Attend from query latents [rows, q_lora_rank] to all `parts`, and project to [rows, hidden].

        softmax over the logits q.k / sqrt(width) and one sink per head, which takes weight and gives nothing. The
        mixture is rotated back by the query's position.
        """
        queries = rotate(self.wq_b(latents).view(-1, self.heads, self.width), angles)
        hidden = ~torch.cat([part.visible for part in parts], dim=-1)
        mixed = torch.cat(
            [self._mix(queries, hidden, parts, slice(first, first + ROWS)) for first in range(0, len(queries), ROWS)]
        )
        if trace is not None:
            trace.add("queries", self.plan.layer, queries)
        mixed = rotate(mixed, angles, inverse=True)
        output: Tensor = self.wo_b(self.wo_a(mixed.view(len(mixed), self.wo_a.groups, -1)))
        return output

    def _mix(self, queries: Tensor, hidden: Tensor, parts: list[Keys], rows: slice) -> Tensor:
        """Weighted sums of keys [rows, heads, width]."""
        keys = torch.cat([functional.embedding(part.places[rows], part.source) for part in parts], dim=1)
        logits = torch.bmm(queries[rows] * self.scale, keys.transpose(1, 2))
        logits = logits.masked_fill(hidden[rows, None], -torch.inf)
        # The row itself is visible, so the peak is finite.
        sink = self.attn_sink[:, None]
        peak = torch.maximum(logits.amax(-1, keepdim=True), sink)
        weights = torch.exp(logits - peak)
        total = weights.sum(-1, keepdim=True) + torch.exp(sink - peak)
        return torch.bmm(weights, keys) / total
