"""Matrix product whose rows do not depend on each other's number."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

# CPU kernels add up a row in another order when fewer than four rows are left; full groups of four all agree.
ROW_MULTIPLE = 4


def linear(rows: Tensor, weight: Tensor) -> Tensor:
    """Return `rows` [rows, inputs] times `weight` [outputs, inputs] transposed.

    The rows are padded to a multiple of four so that each result is the same, bit for bit, in any batch.
    """
    missing = -len(rows) % ROW_MULTIPLE
    return functional.linear(functional.pad(rows, (0, 0, 0, missing)), weight)[: len(rows)]
