"""Rounding of values to the formats the model was trained with: quantise and dequantise at once, in float32.

Formats: architecture notes of DeepSeek-V4.1, numeric formats; OCP Microscaling Formats 1.0 for e4m3, e2m1 and ue8m0.
The gradient passes through unchanged (straight-through estimator, Bengio et al. 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

FP8_MAX = 448.0
FP4_MAX = 6.0
FP8_FLOOR = 1e-4
FP4_FLOOR = 6.0 * 2.0**-126
FP4_FINE_FLOOR = 6.0 * 2.0**-9
BLOCK = 32
FINE_BLOCK = 16


def fake_fp8(values: Tensor) -> Tensor:
    """Round to e4m3 with a power-of-two scale per 32 values of the last dimension."""
    return _blockwise(values, BLOCK, _fp8_block)


def fake_fp4(values: Tensor) -> Tensor:
    """Round to e2m1 with a power-of-two scale per 32 values of the last dimension."""
    return _blockwise(values, BLOCK, _fp4_block)


def fake_fp4_fine(values: Tensor) -> Tensor:
    """Round to e2m1 with an e4m3 scale per 16 values of the last dimension."""
    return _blockwise(values, FINE_BLOCK, _fp4_fine_block)


def power_of_two_scale(peak: Tensor, largest: float) -> Tensor:
    """Smallest power of two that brings `peak` to at most `largest`, exactly."""
    mantissa, exponent = torch.frexp(peak / largest)
    return torch.ldexp(torch.ones_like(peak), exponent - (mantissa == 0.5).to(exponent.dtype))


def round_e4m3(values: Tensor) -> Tensor:
    """Round to the nearest e4m3 value, ties to even; out of range becomes the largest."""
    return values.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).to(values.dtype)


def round_e2m1(values: Tensor) -> Tensor:
    """Round to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, ties to the even code."""
    size = values.abs().clamp_max(FP4_MAX)
    step = torch.where(size < 2.0, 0.5, torch.where(size < 4.0, 1.0, 2.0))
    return (size / step).round().mul(step).copysign(values)


def _fp8_block(blocks: Tensor) -> Tensor:
    scale = power_of_two_scale(_peak(blocks, FP8_FLOOR), FP8_MAX)
    return round_e4m3(blocks / scale) * scale


def _fp4_block(blocks: Tensor) -> Tensor:
    scale = power_of_two_scale(_peak(blocks, FP4_FLOOR), FP4_MAX)
    return round_e2m1(blocks / scale) * scale


def _fp4_fine_block(blocks: Tensor) -> Tensor:
    scale = round_e4m3(_peak(blocks, FP4_FINE_FLOOR) / FP4_MAX)
    return round_e2m1(blocks / scale) * scale


def _peak(blocks: Tensor, floor: float) -> Tensor:
    return blocks.abs().amax(-1, keepdim=True).clamp_min(floor)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, values: Tensor, rounding: Callable[[Tensor], Tensor]) -> Tensor:
        return rounding(values)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def _blockwise(values: Tensor, block: int, rounding: Callable[[Tensor], Tensor]) -> Tensor:
    width = values.shape[-1]

    def whole(rows: Tensor) -> Tensor:
        # A last block that is not full is one of its own: the zeros change no peak.
        padded = functional.pad(rows, (0, -width % block))
        return rounding(padded.reshape(*padded.shape[:-1], padded.shape[-1] // block, block)).flatten(-2)[..., :width]

    if not torch.is_grad_enabled():
        return whole(values)
    result: Tensor = _StraightThrough.apply(values, whole)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return result
