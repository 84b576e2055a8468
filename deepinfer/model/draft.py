"""DSpark: draft layers that propose the next few tokens in one pass, a Markov head on top, and a confidence.

DSpark, https://arxiv.org/abs/2607.05147, and the architecture notes of DeepSeek-V4.1. The layers read what enters the
target layers of the main model, as keys in windows of their own, which the main forward writes. Not published in
detail, and chosen here: a block sees the `window` positions before it, and `main_*` lies in the first stage, the heads
in the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.attention import Keys
from deepinfer.model.batch import stored
from deepinfer.model.config import LayerPlan, ModelConfig
from deepinfer.model.hyper import collapse, spread
from deepinfer.model.layer import Layer
from deepinfer.model.linear import Linear
from deepinfer.model.norm import RmsNorm
from deepinfer.model.numerics import sigmoid
from deepinfer.model.rope import Rotary
from deepinfer.model.weights import Embedding

Choose: TypeAlias = Callable[[Tensor, int], Tensor]
"""Picks token ids [sequences], int64, from logits [sequences, vocabulary] of draft number `int`, counted from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBlock:
    """Where to draft: the last accepted tokens, and their positions, which the main model has not run yet.

    All [sequences], int64. Caches with rings want `slots`, paged ones `tables` [sequences, blocks].
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor | None = None
    tables: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Proposals: `token_ids` [sequences, block], `logits` [sequences, block, vocabulary] they were drawn from, and
    `confidence` [sequences, block], the estimated chance that each is accepted if those before it are."""

    token_ids: Tensor
    logits: Tensor
    confidence: Tensor


class MarkovHead(nn.Module):
    """Bigram correction of rank r: head(embed[previous token]); `embed.weight` and `head.weight` [vocabulary, r]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed = Embedding(config.vocab_size, config.dspark_markov_rank)
        self.head = Linear(config.dspark_markov_rank, config.vocab_size, rounds_inputs=False)


class ConfidenceHead(nn.Module):
    """One number of [final hidden state ; Markov embedding]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.proj = Linear(config.hidden_size + config.dspark_markov_rank, 1, rounds_inputs=False)


class DraftStage(Layer):
    """A draft layer; the first also reads the main model, the last also writes tokens."""

    def __init__(self, config: ModelConfig, plan: LayerPlan, *, targets: int, is_last: bool, main: ModelConfig) -> None:
        super().__init__(config, plan)
        if plan.layer == 0:
            self.main_proj = Linear(targets * config.hidden_size, config.hidden_size)
            self.main_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        if is_last:
            self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
            self.markov_head = MarkovHead(main)
            self.confidence_head = ConfidenceHead(main)

    def draft(
        self,
        streams: Tensor,
        pre: Tensor,
        block: _BlockRows,
        ring: Tensor,
        rotary: Rotary,
    ) -> tuple[Tensor, Tensor]:
        """As `Layer.forward`, over the rows of all blocks: each sees its context and all rows of its block."""
        angles = rotary.angles(block.positions)
        mix = self.attention_mix(streams)
        rows = self.attn_norm(collapse(pre, streams))
        keys = torch.cat([self.attn.window_keys(rows, angles), ring[block.context]])
        parts = [Keys(keys, block.places, block.visible)]
        output = self.attn.attend(self.attn.q_norm(self.attn.wq_a(rows)), angles, parts, None)
        return self.feed_forward(spread(mix, output, streams), mix.pre, None, None)


def stages(config: ModelConfig) -> list[DraftStage]:
    """Draft layers of a model; none if it has none."""
    count = config.num_nextn_predict_layers
    if not count:
        return []
    shape = config.draft_config
    targets = len(config.dspark_target_layer_ids)
    return [
        DraftStage(shape, plan, targets=targets, is_last=plan.layer == count - 1, main=config) for plan in shape.plans
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockRows:
    """Rows of all blocks, one block after the other.

    `positions` [rows]; `context` [sequences * window], places of a ring; `places` [rows, window + block] point into the
    rows and then the context, at finite keys only, and count where `visible`.
    """

    positions: Tensor
    context: Tensor
    places: Tensor
    visible: Tensor


def block_rows(block: DraftBlock, size: int, cache: ModelCache) -> _BlockRows:
    """Lay out blocks of `size` rows."""
    window, count = cache.layout.window, len(block.positions)
    past = block.positions[:, None] + torch.arange(-window, 0)
    every = torch.arange(count)[:, None]
    places = stored(past.clamp_min(0), every, block.slots, block.tables, window, cache.layout)
    own = torch.arange(count * size)
    first = own // size * size
    inside = first[:, None] + torch.arange(size)
    outside = count * size + (own // size * window)[:, None] + torch.arange(window)
    seen = (past >= 0)[own // size]
    return _BlockRows(
        positions=(block.positions[:, None] + torch.arange(size)).flatten(),
        context=torch.where(past >= 0, places, 0).flatten(),
        places=torch.cat([torch.where(seen, outside, own[:, None]), inside], dim=1),
        visible=torch.cat([seen, torch.ones_like(inside, dtype=torch.bool)], dim=1),
    )


def speak(
    last: DraftStage, hidden: Tensor, base: Tensor, first: Tensor, choose: Choose, temperatures: Sequence[float]
) -> Draft:
    """Choose the tokens of each block from left to right.

    `hidden` [sequences, block, hidden], `base` logits [sequences, block, vocabulary], `first` [sequences] the last
    accepted tokens. logits_k = base_k + W2 W1[x_(k-1)]; confidence_k = sigmoid(w [hidden_k ; W1[x_(k-1)]] / T_k).
    """
    previous, tokens, logits, confidence = first, [], [], []
    for number, temperature in enumerate(temperatures):
        bigram = last.markov_head.embed(previous)
        logits.append(base[:, number] + last.markov_head.head(bigram))
        state = torch.cat([hidden[:, number], bigram], dim=-1)
        confidence.append(sigmoid(last.confidence_head.proj(state)[:, 0] / temperature))
        previous = choose(logits[-1], number)
        tokens.append(previous)
    return Draft(
        token_ids=torch.stack(tokens, dim=1), logits=torch.stack(logits, dim=1), confidence=torch.stack(confidence, 1)
    )
