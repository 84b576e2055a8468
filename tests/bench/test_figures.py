"""Percentiles and tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepinfer.bench.figures import percentile, summarize, table

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1)


@given(VALUES, st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], number: int) -> None:
    found = percentile(values, number)
    enough = [value for value in values if 100 * sum(other <= value for other in values) >= number * len(values)]
    assert found == min(enough)


def test_percentiles_of_known_values() -> None:
    found = summarize([float(value) for value in range(200, 0, -1)])
    assert (found.count, found.p50, found.p95, found.p99) == (200, 100.0, 190.0, 198.0)


@pytest.mark.parametrize("number", [-1, 0, 101])
def test_a_percentile_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="must lie between 1 and 100"):
        percentile([1.0], number)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        summarize([])


def test_columns_of_a_table_are_flush() -> None:
    assert table([("name", "n"), ("a", "100")]) == "name    n\na     100"
