"""Percentiles and tables of what was measured. Owns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Percentiles of `count` values, in their unit."""

    count: int
    p50: float
    p95: float
    p99: float


def percentile(values: Sequence[float], number: int) -> float:
    """The smallest of `values` that `number` per cent of them do not exceed. Raises `ValueError` without any."""
    if not values:
        raise ValueError("there are no values; nothing was measured")
    if not 0 < number <= 100:
        raise ValueError(f"the percentile is {number}; it must lie between 1 and 100")
    return sorted(values)[-(-number * len(values) // 100) - 1]


def summarize(values: Sequence[float]) -> Summary:
    """Percentiles of `values`. Raises `ValueError` without any."""
    return Summary(len(values), *(percentile(values, number) for number in (50, 95, 99)))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text, the first their heading; the first column is flush left, the others flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    )
