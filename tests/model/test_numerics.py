"""The bits of a result do not depend on its place: the ground that batch invariance stands on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deepinfer.model.hyper import sinkhorn
from deepinfer.model.linear import TILE, tiled
from deepinfer.model.numerics import constant, inverse_rms, sigmoid, silu, softplus


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("function", [sigmoid, silu, softplus, torch.exp])
def test_elementwise_functions(function: Callable[[Tensor], Tensor]) -> None:
    values = normal(300) * 5
    wanted = torch.cat([function(value.repeat(64))[:1] for value in values])
    for first in (0, 1, 5, 16):
        for size in range(1, 70):
            assert torch.equal(function(values[first : first + size].clone()), wanted[first : first + size])


def test_they_agree_with_torch() -> None:
    values = torch.cat([normal(500) * 10, torch.tensor([-100.0, 0.0, 100.0])])
    assert torch.allclose(sigmoid(values), torch.sigmoid(values), rtol=1e-6, atol=1e-30)
    assert torch.allclose(silu(values), torch.nn.functional.silu(values), rtol=1e-5, atol=1e-30)
    assert torch.allclose(softplus(values), torch.nn.functional.softplus(values), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    "shape", [(64, 64), (256, 1024), (1024, 24), (32, 8080), *((96, outputs) for outputs in (1, 2, 3, 4, 5, 8, 15))]
)
def test_products(shape: tuple[int, int]) -> None:
    """Every place in a tile, any number of rows: the product of a row alone."""
    inputs, outputs = shape
    matrix, row = normal(outputs, inputs), normal(1, inputs, seed=1)
    wanted = tiled(row, matrix)
    assert torch.allclose(wanted, torch.nn.functional.linear(row, matrix), atol=1e-3)
    for count in (*range(1, 2 * TILE + 2), 100):
        for place in {0, count // 2, count - 1}:
            rows = normal(count, inputs, seed=2)
            rows[place] = row[0]
            assert torch.equal(tiled(rows, matrix)[place], wanted[0])
    assert tiled(row[:0], matrix).shape == (0, outputs)


@pytest.mark.parametrize("width", [24, 64, 1000, 5120])
def test_norms(width: int) -> None:
    rows, epsilon = normal(40, width), constant(1e-20)
    wanted = torch.cat([inverse_rms(row[None], epsilon) for row in rows])
    for first in (0, 1, 7):
        for count in (1, 2, 3, 16, 31):
            assert torch.equal(inverse_rms(rows[first : first + count], epsilon), wanted[first : first + count])
    assert torch.equal(torch.zeros(1, width) * inverse_rms(torch.zeros(1, width), epsilon), torch.zeros(1, width))


@pytest.mark.parametrize("streams", [2, 3, 4])
def test_stream_mixes(streams: int) -> None:
    logits, epsilon = normal(70, streams, streams), constant(1e-6)
    with torch.inference_mode():
        wanted = torch.cat([sinkhorn(one[None], 20, epsilon) for one in logits])
        for count in range(1, 70):
            assert torch.equal(sinkhorn(logits[:count], 20, epsilon), wanted[:count])
    assert torch.allclose(sinkhorn(logits, 20, epsilon), wanted, atol=1e-6)
