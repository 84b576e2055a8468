"""Formats of weights in a checkpoint: FP8 in square blocks, FP4 packed in bytes, both with power-of-two scales.

A quantised weight `name.weight` has a companion `name.scale`. Decoding is exact, and what was
decoded loses nothing when it is encoded again.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from deepinfer.model.quantization import BLOCK, FP4_FLOOR, FP4_MAX, FP8_MAX, power_of_two_scale, round_e2m1

# Values of the sixteen codes: three bits of size, then the sign.
_CODES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
_PACKED = (torch.int8, torch.uint8)


def decode(weight: Tensor, scale: Tensor) -> Tensor:
    """Dequantise to float32 [outputs, inputs]: FP8 with a scale per square block, or packed FP4 with one per row block.

    Raises ValueError for a type or shape that is neither.
    """
    if weight.dtype in _PACKED:
        return _decode_fp4(weight, scale.float())
    if weight.dtype != torch.float8_e4m3fn:
        raise ValueError(f"it has a scale, but the type {weight.dtype}, neither FP8 nor packed FP4")
    rows, columns = weight.shape
    if scale.shape != (-(-rows // BLOCK), -(-columns // BLOCK)):
        raise ValueError(f"its scale has the shape {tuple(scale.shape)}, not one per {BLOCK} x {BLOCK} block")
    return weight.float() * _spread(scale.float(), BLOCK, rows, columns)


def encode_fp8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weight in e4m3 and scale in ue8m0 of a float32 matrix [outputs, inputs]."""
    rows, columns = weight.shape
    padded = functional.pad(weight.abs(), (0, -columns % BLOCK, 0, -rows % BLOCK))
    peaks = padded.view(len(padded) // BLOCK, BLOCK, -1, BLOCK).amax((1, 3))
    # A block of zeros has any scale; one keeps it in range.
    scale = torch.where(peaks > 0, power_of_two_scale(peaks.clamp_min(FP8_MAX * 2.0**-126), FP8_MAX), 1.0)
    return (weight / _spread(scale, BLOCK, rows, columns)).to(torch.float8_e4m3fn), scale.to(torch.float8_e8m0fnu)


def encode_fp4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weight, two e2m1 codes a byte, the even column in the low half, and scale in ue8m0 of [outputs, inputs].

    Raises ValueError unless the inputs are a multiple of 32.
    """
    if weight.shape[1] % BLOCK:
        raise ValueError(f"FP4 wants inputs in multiples of {BLOCK}; there are {weight.shape[1]}")
    blocks = weight.reshape(len(weight), -1, BLOCK)
    scale = power_of_two_scale(blocks.abs().amax(-1, keepdim=True).clamp_min(FP4_FLOOR), FP4_MAX)
    values = round_e2m1(blocks / scale).flatten(1)
    codes = torch.bucketize(values.abs(), _CODES[:8]) + 8 * values.signbit()
    packed = codes[:, 0::2] + 16 * codes[:, 1::2]
    return packed.to(torch.uint8).view(torch.int8), scale[..., 0].to(torch.float8_e8m0fnu)


def _decode_fp4(packed: Tensor, scale: Tensor) -> Tensor:
    codes = packed.view(torch.uint8).int()
    values = _CODES[torch.stack([codes & 15, codes >> 4], dim=-1).flatten(1)]
    rows, columns = values.shape
    if scale.shape != (rows, -(-columns // BLOCK)):
        raise ValueError(f"its scale has the shape {tuple(scale.shape)}, not one per {BLOCK} inputs")
    return values * scale.repeat_interleave(BLOCK, dim=1)[:, :columns]


def _spread(scale: Tensor, block: int, rows: int, columns: int) -> Tensor:
    return scale.repeat_interleave(block, 0)[:rows].repeat_interleave(block, 1)[:, :columns]
