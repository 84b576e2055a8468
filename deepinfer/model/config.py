"""Shape of the embedded model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes of a decoder-only transformer with grouped-query attention and tied embeddings.

    The defaults make a model of 8 million weights that answers in DeepSeek's vocabulary: small enough for two cores,
    and random, so it shows how a server behaves and not what a model knows. `logit_deviation` is the standard
    deviation of its logits; 5 makes answers about as peaked as a trained model's.
    """

    vocabulary_size: int = 129280
    hidden_size: int = 64
    layer_count: int = 2
    query_head_count: int = 8
    key_value_head_count: int = 2
    head_size: int = 16
    feed_forward_size: int = 128
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-6
    logit_deviation: float = 5.0
