"""Rotary positions (Su et al. 2021, https://arxiv.org/abs/2104.09864) on the last dimensions, in interleaved pairs.

Window layers use the base frequencies; layers with compressed keys use a larger base, stretched by YaRN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepinfer.model.config import ModelConfig, Yarn

# Angles of p are put together from those of p // STRIDE and p % STRIDE: two small tables serve a million positions.
STRIDE = 1024


def frequencies(width: int, theta: float, yarn: Yarn | None) -> Tensor:
    """Radians per position of each pair [width / 2], float64.

    f_i = theta^(-2i / width). YaRN: low = max(0, floor(d(beta_fast))), high = min(width - 1, ceil(d(beta_slow))) with
    d(r) = width ln(original / (2 pi r)) / (2 ln theta); ramp_i = clip((i - low) / (high - low), 0, 1), where a range of
    zero counts as 1e-3; f_i is divided by `factor` as far as its ramp says.
    """
    pairs = torch.arange(width // 2, dtype=torch.float64)
    plain = theta ** (-2.0 * pairs / width)
    if yarn is None:
        return plain

    def dimension(rotations: float) -> float:
        wavelengths = yarn.original_max_position_embeddings / (2.0 * math.pi * rotations)
        return width * math.log(wavelengths) / (2.0 * math.log(theta))

    low = max(0, math.floor(dimension(yarn.beta_fast)))
    high = min(width - 1, math.ceil(dimension(yarn.beta_slow)))
    reach = 1e-3 if low == high else high - low
    ramp = ((pairs - low) / reach).clamp(0.0, 1.0)
    return plain * (ramp / yarn.factor + 1.0 - ramp)


class Rotary:
    """Cosines and sines of one set of frequencies, for positions below `limit`."""

    def __init__(self, speeds: Tensor, limit: int) -> None:
        fine = torch.arange(STRIDE, dtype=torch.float64)[:, None] * speeds
        coarse = torch.arange(limit // STRIDE + 1, dtype=torch.float64)[:, None] * STRIDE * speeds
        self._fine = (fine.cos(), fine.sin())
        self._coarse = (coarse.cos(), coarse.sin())

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines [rows, width], float32, of `positions` [rows], int64: see `rotate`."""
        fine, coarse = positions % STRIDE, positions // STRIDE
        cosine, sine = (table.index_select(0, fine) for table in self._fine)
        coarse_cosine, coarse_sine = (table.index_select(0, coarse) for table in self._coarse)
        both = (coarse_cosine * cosine - coarse_sine * sine).float()
        turn = (coarse_sine * cosine + coarse_cosine * sine).float()
        return both.repeat_interleave(2, dim=-1), torch.stack([-turn, turn], dim=-1).flatten(1)


def rotaries(config: ModelConfig) -> tuple[Rotary, Rotary]:
    """Positions of the window layers, and of those with compressed keys."""
    width, limit = config.qk_rope_head_dim, config.max_position_embeddings
    compressed = frequencies(width, config.compress_rope_theta, config.rope_scaling)
    return Rotary(frequencies(width, config.rope_theta, None), limit), Rotary(compressed, limit)


def rotate(values: Tensor, angles: tuple[Tensor, Tensor], *, inverse: bool = False) -> Tensor:
    """Turn the last pairs of `values` [rows, width] or [rows, heads, width] by `angles`; backwards if `inverse`.

    A pair (x, y) becomes (x cos - y sin, y cos + x sin): values times cosines, plus swapped values times signed sines.
    """
    cosine, sine = (table[:, None] if values.dim() == 3 else table for table in angles)
    turned = cosine.shape[-1]
    pairs = values[..., -turned:]
    swapped = pairs.reshape(*pairs.shape[:-1], turned // 2, 2).flip(-1).flatten(-2) * sine
    rotated = pairs * cosine - swapped if inverse else pairs * cosine + swapped
    return torch.cat([values[..., :-turned], rotated], dim=-1)
