"""Scores the compressed entries for each query and picks the best: which ones a layer and its followers attend to.

Source: architecture notes of DeepSeek-V4.1, indexer. Scores are float32; ties go to the lower index.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Batch, Group
from deepinfer.model.compressor import Entries
from deepinfer.model.config import LayerPlan, LayerRole, ModelConfig
from deepinfer.model.linear import Linear
from deepinfer.model.norm import RmsNorm
from deepinfer.model.quantization import fake_fp4
from deepinfer.model.rope import Rotary, rotate
from deepinfer.model.selection import Selection, ascending, best, candidate_mask
from deepinfer.model.trace import Trace

# Entries scored by one product: every product has the same shape, whatever the length of the context.
SCORED = 128
# Rows whose scores are held at once, and products of one call where there are fewer rows.
ROWS = 128
PRODUCTS = 64


class Indexer(nn.Module):
    """score_j = sum over heads of w relu(query . key_j) / sqrt(width heads); reindex layers see only the candidates."""

    def __init__(self, config: ModelConfig, plan: LayerPlan) -> None:
        super().__init__()
        assert plan.kv_source is not None
        self.plan = plan
        self.source = plan.kv_source
        self.heads, self.width = config.index_n_heads, config.index_head_dim
        self.count = config.index_topk
        self.candidate_block, self.candidate_limit = config.candidate_block_size, config.candidate_topk_blocks
        self.quantizes = config.quantization.caches
        self.wq_b = Linear(config.q_lora_rank, self.heads * self.width)
        self.weights_proj = Linear(config.hidden_size, self.heads, rounds_inputs=False)
        if plan.role is LayerRole.FULL:
            self.wk = Linear(config.head_dim, self.width, rounds_inputs=False)
            self.k_norm = RmsNorm(self.width, config.rms_norm_eps)

    def store_keys(self, entries: Entries, cache: ModelCache, rotary: Rotary) -> None:
        """Write the index keys of new entries: RMS(W_k c), rotated at the group's start, FP4."""
        keys = rotate(self.k_norm(self.wk(entries.latents)), rotary.angles(entries.positions))
        keys = fake_fp4(keys) if self.quantizes else keys
        cache.index_keys[self.source].index_copy_(0, entries.places, keys)

    def forward(
        self,
        rows: Tensor,
        latents: Tensor,
        angles: tuple[Tensor, Tensor],
        batch: Batch,
        cache: ModelCache,
        candidates: Tensor | None,
        trace: Trace | None,
    ) -> tuple[Selection, Tensor | None]:
        """Choose entries for `rows` [rows, hidden] with query latents [rows, q_lora_rank].

        `candidates` [rows, entries], bool, limits the choice if given. The second result is the limit for later layers,
        if this layer is their source.
        """
        entries = max(1, batch.length // self.plan.ratio)
        visible = (batch.positions + 1) // self.plan.ratio
        limited = self.plan.selects_candidates or candidates is not None
        within = entries <= self.count and (not limited or entries <= self.candidate_limit * self.candidate_block)
        if within and trace is None:
            # All that is visible is chosen, whatever its score, and every block is a candidate.
            chosen = torch.arange(entries) < visible[:, None]
            limit = torch.ones_like(chosen) if self.plan.selects_candidates else None
        else:
            scores = self._scores(rows, latents, angles, batch, cache, entries)
            scores = scores.masked_fill(torch.arange(entries) >= visible[:, None], -torch.inf)
            limit = self._limit(scores) if self.plan.selects_candidates else None
            if candidates is not None:
                scores = scores.masked_fill(~candidates, -torch.inf)
            chosen = best(scores, self.count)
            if trace is not None:
                trace.add("index_scores", self.plan.layer, scores)
        selection = self._selection(ascending(chosen, self.count), batch, cache)
        if trace is not None:
            trace.add("index_sel", self.plan.layer, selection.entries)
            trace.add("index_places", self.plan.layer, selection.places)
            if limit is not None:
                trace.add("cand_mask", self.plan.layer, limit)
        return selection, limit

    def _limit(self, scores: Tensor) -> Tensor:
        return candidate_mask(scores, block=self.candidate_block, limit=self.candidate_limit)

    def _selection(self, entries: Tensor, batch: Batch, cache: ModelCache) -> Selection:
        per_block = cache.layout.block_size // self.plan.ratio
        known = entries.clamp_min(0)
        blocks = batch.tables.gather(1, known // per_block)
        nothing = len(cache.compressed[self.source]) - 1
        return Selection(entries, torch.where(entries >= 0, blocks * per_block + known % per_block, nothing))

    def _scores(
        self,
        rows: Tensor,
        latents: Tensor,
        angles: tuple[Tensor, Tensor],
        batch: Batch,
        cache: ModelCache,
        entries: int,
    ) -> Tensor:
        """Scores [rows, entries], those of invisible entries included."""
        queries = rotate(self.wq_b(latents).view(-1, self.heads, self.width), angles)
        queries = fake_fp4(queries) if self.quantizes else queries
        weights = self.weights_proj(rows) * (self.width * self.heads) ** -0.5
        keys = cache.index_keys[self.source]
        per_block = cache.layout.block_size // self.plan.ratio
        parts = [_score_group(group, queries, weights, keys, per_block, entries) for group in batch.groups]
        return torch.cat(parts)


def _score_group(group: Group, queries: Tensor, weights: Tensor, keys: Tensor, per_block: int, entries: int) -> Tensor:
    """Scores [rows of the group, entries] of `queries` [rows, heads, width] with head weights [rows, heads]."""
    spans, length = len(group.tables), group.length
    query = queries[group.rows].view(spans, length, 1, *queries.shape[1:])
    weight = weights[group.rows].view(spans, length, 1, 1, -1)
    places = torch.arange(per_block) + group.tables[:, :, None] * per_block
    places = functional.pad(places.flatten(1), (0, -places[0].numel() % SCORED)).view(spans, -1, SCORED)
    scores = query.new_full((spans, length, entries), -torch.inf)
    step = max(1, PRODUCTS // (spans * length))
    for first in range(0, -(-entries // SCORED), step):
        key = keys[places[:, None, first : first + step]].transpose(-1, -2)
        columns = slice(first * SCORED, (first + step) * SCORED)
        for row in range(0, length, ROWS):
            dots = torch.matmul(query[:, row : row + ROWS], key).relu()
            part = torch.matmul(weight[:, row : row + ROWS], dots).flatten(2)
            scores[:, row : row + ROWS, columns] = part[..., : entries - columns.start]
    return scores.flatten(0, 1)
