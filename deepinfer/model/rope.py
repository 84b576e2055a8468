"""Rotary position embedding (Su et al. 2021, https://arxiv.org/abs/2104.09864), the half-split layout."""

from __future__ import annotations

import torch
from torch import Tensor


def rope_angles(positions: Tensor, *, head_size: int, theta: float) -> Tensor:
    """Angles [rows, head_size / 2] = position * theta ** (-2 i / head_size), float32."""
    frequencies = theta ** (torch.arange(0, head_size, 2) / -head_size)
    return positions[:, None] * frequencies


def rotate(heads: Tensor, angles: Tensor) -> Tensor:
    """Rotate `heads` [rows, head_count, head_size] by `angles` [rows, head_size / 2]."""
    cosine, sine = angles.cos()[:, None], angles.sin()[:, None]
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
