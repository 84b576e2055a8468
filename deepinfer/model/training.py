"""Losses that train every part of the model, over sequences of equal length. Owns no optimizer and no data.

Next-token loss for the main model. The indexer learns from the attention it serves (its choice has no gradient): the
divergence of its scores from the attention over what it chose, as in DeepSeek-V3.2's sparse attention. Draft layers
learn the main model's next tokens, the confidence head how far the two distributions agree (DSpark). Router biases
have no gradient: `balance` moves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Batch, Span, build_batch
from deepinfer.model.draft import DraftBlock
from deepinfer.model.moe import MixtureOfExperts
from deepinfer.model.trace import Trace
from deepinfer.model.transformer import Transformer

Sequences: TypeAlias = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Losses:
    """Mean losses of one batch, scalars with gradients. `draft` and `confidence` are zero without draft layers."""

    tokens: Tensor
    index: Tensor
    draft: Tensor
    confidence: Tensor
    trace: Trace

    @property
    def total(self) -> Tensor:
        """Sum of all."""
        return self.tokens + self.index + self.draft + self.confidence


def losses(model: Transformer, sequences: Sequences, *, draft_at: int | None = None) -> Losses:
    """Run `sequences`, equally long, and compare each token with the prediction made before it.

    Drafts begin at position `draft_at` of each sequence, which must be followed by a whole block; by default in the
    middle. Raises ValueError for sequences of different lengths.
    """
    length = len(sequences[0])
    if any(len(ids) != length for ids in sequences):
        raise ValueError("sequences of one batch must have one length")
    batch, cache = _prepare(model, sequences)
    trace = Trace()
    logits = model(batch, cache, trace).view(len(sequences), length, -1)
    ids = torch.tensor(sequences)
    start = length // 2 if draft_at is None else draft_at
    draft, confidence = _draft_losses(model, cache, ids, logits, start)
    return Losses(
        tokens=functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()),
        index=_index_loss(model, cache, trace),
        draft=draft,
        confidence=confidence,
        trace=trace,
    )


@torch.no_grad()
def balance(model: Transformer, trace: Trace, step: float) -> None:
    """Move each main layer's router bias by `step` towards an even load of its experts."""
    for layer in model.layers:
        assert isinstance(layer.ffn, MixtureOfExperts)
        chosen = trace.last("router_idx", layer.plan.layer).flatten()
        load = torch.bincount(chosen, minlength=len(layer.ffn.gate.bias)).float()
        layer.ffn.gate.bias.add_(step * torch.sign(load.mean() - load))


def _prepare(model: Transformer, sequences: Sequences) -> tuple[Batch, ModelCache]:
    """Batch of whole sequences, and fresh caches: gradients reach through what is stored in them."""
    block_size = 4 * max(model.config.compress_ratios, default=1) or 1
    layout = model.config.cache_layout(block_size)
    each = -(-len(sequences[0]) // block_size)
    cache = ModelCache(layout, block_count=each * len(sequences), slot_count=len(sequences))
    spans = [
        Span(token_ids=ids, start=0, blocks=range(slot * each, (slot + 1) * each), slot=slot, output_count=len(ids))
        for slot, ids in enumerate(sequences)
    ]
    return build_batch(spans, layout), cache


def _index_loss(model: Transformer, cache: ModelCache, trace: Trace) -> Tensor:
    """Mean divergence, over index layers and rows, of the scores' softmax from the attention to the same entries."""
    parts = []
    for layer in trace.layers("index_scores"):
        source = model.layers[layer].plan.kv_source
        assert source is not None
        entries, places = trace.last("index_sel", layer), trace.last("index_places", layer)
        rows = (entries >= 0).sum(-1) > 1
        if not rows.any():
            continue
        hidden = (entries < 0)[rows]
        keys = cache.compressed[source][places[rows]].detach()
        queries = trace.last("queries", layer)[rows].detach()
        logits = torch.matmul(queries, keys.transpose(1, 2)) * model.config.head_dim**-0.5
        target = logits.masked_fill(hidden[:, None], -torch.inf).softmax(-1).mean(1)
        scores = trace.last("index_scores", layer)[rows].gather(1, entries[rows].clamp_min(0))
        found = scores.masked_fill(hidden, -torch.inf).log_softmax(-1).masked_fill(hidden, 0.0)
        parts.append((torch.special.xlogy(target, target) - target * found).sum(-1).mean())
    return torch.stack(parts).mean() if parts else torch.zeros(())


def _draft_losses(
    model: Transformer, cache: ModelCache, ids: Tensor, logits: Tensor, start: int
) -> tuple[Tensor, Tensor]:
    """Losses of one block per sequence whose last accepted token stands at `start`: of its tokens and confidences."""
    size = model.config.dspark_block_size
    if not model.mtp:
        return torch.zeros(()), torch.zeros(())
    if not 0 < start <= ids.shape[1] - size - 1:
        raise ValueError(f"draft_at is {start}; {size} tokens must follow within {ids.shape[1]}")
    wanted = ids[:, start + 1 : start + 1 + size]
    block = DraftBlock(token_ids=ids[:, start], positions=torch.full((len(ids),), start), slots=torch.arange(len(ids)))
    draft = model.draft(block, cache, lambda _, number: wanted[:, number])
    cost = functional.cross_entropy(draft.logits.flatten(0, 1), wanted.flatten())
    with torch.no_grad():
        main = logits[:, start : start + size].softmax(-1)
        agreement = 1.0 - 0.5 * (draft.logits.softmax(-1) - main).abs().sum(-1)
    return cost, functional.binary_cross_entropy(draft.confidence.clamp(1e-6, 1.0 - 1e-6), agreement)
