"""Functions whose result for an element does not depend on where in a tensor it lies.

On CPUs, torch's own sigmoid, silu and softplus take another path for the last few elements of a tensor than for the
others, and the two differ in the last bit. `exp`, `log1p` and the arithmetic below take one path for all. Constants are
tensors: a Python number costs an operation on a small tensor twice its time.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_ONE: Final = torch.tensor(1.0)


def constant(value: float) -> Tensor:
    """Scalar tensor, float32."""
    return torch.tensor(value, dtype=torch.float32)


def sigmoid(values: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return torch.exp(-values).add(_ONE).reciprocal()


def silu(values: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return values / torch.exp(-values).add(_ONE)


def softplus(values: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return torch.log1p(torch.exp(-values.abs())) + values.clamp_min(0.0)


def inverse_rms(rows: Tensor, epsilon: Tensor) -> Tensor:
    """1 / sqrt(mean of squares + epsilon) over the last dimension, kept as 1."""
    return rows.square().mean(-1, keepdim=True).add(epsilon).rsqrt()
