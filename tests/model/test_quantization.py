"""Rounding to FP8 and FP4, value by value against the formats' definitions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deepinfer.model.quantization import fake_fp4, fake_fp4_fine, fake_fp8, round_e2m1, round_e4m3
from deepinfer.model.storage import decode, encode_fp4, encode_fp8

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E4M3 = sorted(
    {(code & 7) * 2.0**-9 if code < 8 else (8 + (code & 7)) * 2.0 ** ((code >> 3) - 10) for code in range(127)}
)


def nearest(value: float, grid: tuple[float, ...] | list[float]) -> float:
    """Nearest value of `grid`, of two equally near ones that with the even code; keeps the sign."""
    size = min(range(len(grid)), key=lambda code: (abs(grid[code] - abs(value)), code % 2))
    return math.copysign(grid[size], value)


def normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator) * torch.randn(shape[0], 1, generator=generator).mul(4).exp()


def test_e2m1_rounds_ties_to_the_even_code() -> None:
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -3.5, 100.0]
    assert round_e2m1(torch.tensor(ties)).tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, -0.0, -4.0, 6.0]
    values = torch.linspace(-7, 7, 1401)
    assert round_e2m1(values).tolist() == [nearest(value, E2M1) for value in values.tolist()]


def test_e4m3_rounds_to_the_nearest() -> None:
    values = torch.cat([torch.linspace(-460, 460, 999), torch.linspace(-0.1, 0.1, 999)])
    assert round_e4m3(values).tolist() == [nearest(value, E4M3) for value in values.tolist()]


@pytest.mark.parametrize(
    ("rounding", "block", "grid", "largest", "floor", "scale_grid"),
    [
        (fake_fp8, 32, E4M3, 448.0, 1e-4, None),
        (fake_fp4, 32, list(E2M1), 6.0, 6 * 2.0**-126, None),
        (fake_fp4_fine, 16, list(E2M1), 6.0, 6 * 2.0**-9, E4M3),
    ],
)
def test_blocks_are_scaled_and_rounded(
    rounding: Callable[[Tensor], Tensor],
    block: int,
    grid: list[float],
    largest: float,
    floor: float,
    scale_grid: list[float] | None,
) -> None:
    values = torch.cat([normal(6, 64), torch.zeros(1, 64), torch.full((1, 64), largest), torch.full((1, 64), 1e-30)])
    found = rounding(values)
    for row, wanted_row in zip(found, values, strict=True):
        for first in range(0, 64, block):
            part = wanted_row[first : first + block].tolist()
            peak = max(max(abs(value) for value in part), floor)
            scale = 2.0 ** math.ceil(math.log2(peak / largest)) if scale_grid is None else nearest(peak / 6, scale_grid)
            wanted = [nearest(value / scale, grid) * scale for value in part]
            assert row[first : first + block].tolist() == pytest.approx(wanted, rel=1e-6)
    assert torch.equal(rounding(found), found)


def test_a_last_block_may_be_shorter() -> None:
    values = normal(3, 40)
    assert torch.equal(fake_fp8(values)[:, :32], fake_fp8(values[:, :32]))
    assert torch.equal(fake_fp8(values)[:, 32:], fake_fp8(values[:, 32:]))
    assert fake_fp4(torch.zeros(0, 64)).shape == (0, 64)


def test_gradients_pass_through() -> None:
    values = normal(2, 32).requires_grad_()
    torch.autograd.backward(fake_fp4(values).mul(torch.arange(32.0)).sum())
    assert values.grad is not None
    assert torch.equal(values.grad, torch.arange(32.0).expand(2, 32))


@pytest.mark.parametrize("shape", [(64, 96), (33, 64), (1, 32)])
def test_stored_weights_decode_to_what_was_encoded(shape: tuple[int, int]) -> None:
    weight = normal(*shape)
    weight[0, 0] = 0.0
    for encode in (encode_fp8, encode_fp4):
        decoded = decode(*encode(weight))
        assert torch.equal(decode(*encode(decoded)), decoded)
        assert (decoded - weight).abs().max() <= weight.abs().max() / 4
    assert torch.equal(decode(*encode_fp4(weight)), fake_fp4(weight))
    assert torch.equal(decode(*encode_fp8(torch.zeros(shape))), torch.zeros(shape))


def test_packed_codes_lie_low_half_first() -> None:
    packed, scale = encode_fp4(torch.tensor([[6.0, -0.5] * 16]))
    assert packed.view(torch.uint8)[0, 0] == 0x97
    assert scale.float().tolist() == [[1.0]]
