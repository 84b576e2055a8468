"""Root mean square normalisation (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""

from __future__ import annotations

from torch import Tensor, nn

from deepinfer.model.numerics import constant, inverse_rms
from deepinfer.model.weights import weight


class RmsNorm(nn.Module):
    """w * x / sqrt(mean(x^2) + epsilon) over the last dimension, of `width`."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = weight(width)
        self.epsilon = constant(epsilon)

    def forward(self, rows: Tensor) -> Tensor:
        """Normalise `rows` [..., width]."""
        return rows * inverse_rms(rows, self.epsilon) * self.weight
