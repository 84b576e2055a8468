"""The embedded model: a small decoder-only transformer with random weights.

RMSNorm (Zhang and Sennrich 2019), rotary positions, grouped-query attention, SwiGLU (Shazeer 2020), tied embeddings.
Knows nothing of requests, scheduling or sampling. Cost: the product with the embedding, vocabulary times hidden size
per sampled token, outweighs all layers together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepinfer.cache.pool import KeyValuePool
from deepinfer.model.attention import paged_attention
from deepinfer.model.batch import AttentionGroup, Batch
from deepinfer.model.config import ModelConfig
from deepinfer.model.linear import linear
from deepinfer.model.rope import rope_angles, rotate

EMBEDDING_GAIN = 0.125


class Layer(nn.Module):
    """Attention and feed-forward block, each behind a norm and added to the residual stream."""

    def __init__(self, config: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        self.config = config
        # Sharp attention, so that an answer depends on single tokens of the context and not on its average.
        self.query = _weight(config.query_head_count * head, hidden, generator=generator, gain=4.0)
        self.key_value = _weight(2 * config.key_value_head_count * head, hidden, generator=generator)
        self.attention_output = _weight(hidden, config.query_head_count * head, generator=generator)
        self.gate_up = _weight(2 * config.feed_forward_size, hidden, generator=generator)
        self.down = _weight(hidden, config.feed_forward_size, generator=generator)

    def forward(self, stream: Tensor, batch: Batch, pool: KeyValuePool, index: int, angles: Tensor) -> Tensor:
        """Map `stream` [rows, hidden_size] to the same shape, storing keys and values of layer `index` in `pool`."""
        stream = stream + self._attend(_norm(stream, self.config), batch, pool, index, angles)
        gate, up = linear(_norm(stream, self.config), self.gate_up).chunk(2, dim=-1)
        return stream + linear(functional.silu(gate) * up, self.down)

    def _attend(self, rows: Tensor, batch: Batch, pool: KeyValuePool, index: int, angles: Tensor) -> Tensor:
        head = self.config.head_size
        queries = rotate(linear(rows, self.query).view(len(rows), -1, head), angles)
        keys, values = linear(rows, self.key_value).view(len(rows), -1, head).chunk(2, dim=1)
        pool.write(index, batch.slots, rotate(keys, angles), values)
        mixed = [_group_attention(group, queries, batch.positions, pool, index) for group in batch.groups]
        return linear(torch.cat(mixed).flatten(1), self.attention_output)


class Transformer(nn.Module):
    """Decoder-only transformer; the same seed gives the same weights."""

    def __init__(self, config: ModelConfig, *, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.config = config
        # Small beside what the layers add, or tied embeddings would make every token predict itself.
        self.embedding = _weight(config.vocabulary_size, config.hidden_size, generator=generator, gain=EMBEDDING_GAIN)
        self.layers = nn.ModuleList(Layer(config, generator) for _ in range(config.layer_count))

    def forward(self, batch: Batch, pool: KeyValuePool) -> Tensor:
        """Return logits [outputs, vocabulary_size], float32, of the batch's output rows."""
        angles = rope_angles(batch.positions, head_size=self.config.head_size, theta=self.config.rope_theta)
        stream = self.embedding[batch.token_ids]
        for index, layer in enumerate(self.layers):
            stream = layer(stream, batch, pool, index, angles)
        scale = self.config.logit_deviation / EMBEDDING_GAIN
        return linear(_norm(stream[batch.output_rows], self.config) * scale, self.embedding)


def _group_attention(
    group: AttentionGroup, queries: Tensor, positions: Tensor, pool: KeyValuePool, index: int
) -> Tensor:
    sequences = len(group.tables)
    rows = slice(group.first, group.first + sequences * group.length)
    return paged_attention(
        queries[rows].view(sequences, group.length, *queries.shape[1:]),
        pool.keys[index],
        pool.values[index],
        positions=positions[rows].view(sequences, group.length),
        tables=group.tables,
    ).view(queries[rows].shape)


def _norm(rows: Tensor, config: ModelConfig) -> Tensor:
    return functional.rms_norm(rows, (config.hidden_size,), eps=config.norm_epsilon)


def _weight(outputs: int, inputs: int, *, generator: torch.Generator, gain: float = 1.0) -> nn.Parameter:
    """Normal weights such that inputs of deviation 1 give outputs of deviation `gain`."""
    values = torch.randn(outputs, inputs, generator=generator) * (gain * inputs**-0.5)
    return nn.Parameter(values, requires_grad=False)
