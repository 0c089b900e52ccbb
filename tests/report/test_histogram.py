"""Bars of a histogram: every task once, and on the right side of the limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.report.charts import count_between, draw_histogram, find_edges

RATES = st.sampled_from([0.001, 0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5])


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=1, max_size=80), RATES
)
def test_bars_count_every_task_on_its_side_of_the_limit(
    counts: list[tuple[int, int]], limit: float
) -> None:
    sizes = np.array([size for size, _missed in counts])
    errors = np.array([min(size, missed) / size for size, missed in counts])
    edges = find_edges(errors, limit, 1 / float(np.median(sizes)))
    bars = count_between(errors, edges)
    assert sum(bars) == len(errors)
    above = sum(bar for bar, low in zip(bars, edges[:-1], strict=True) if low >= limit)
    assert above == np.count_nonzero(errors > limit)
    assert limit in edges
    assert edges[0] == 0
    assert edges[-1] >= errors.max() * (1 - 1e-9)
    assert np.all(np.diff(edges) > 0)
    assert len(bars) <= 48


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_bars_without_a_limit_span_the_values(values: list[float]) -> None:
    array = np.array(values)
    edges = find_edges(array, None, 0.0)
    assert sum(count_between(array, edges)) == len(values)
    assert edges[0] <= array.min()
    assert edges[-1] >= array.max()


@pytest.mark.parametrize(
    ("missed", "examples", "limit"), [(1, 10, 0.1), (3, 60, 0.05), (6, 20, 0.3)]
)
def test_a_task_exactly_at_the_limit_is_within_it(missed: int, examples: int, limit: float) -> None:
    errors = np.array([missed / examples, 0.0])
    edges = find_edges(errors, limit, 1 / examples)
    bars = count_between(errors, edges)
    assert sum(bar for bar, low in zip(bars, edges[:-1], strict=True) if low >= limit) == 0


def test_bars_are_not_narrower_than_the_steps_of_the_values() -> None:
    errors = np.arange(9) / 40
    assert np.diff(find_edges(errors, 0.1, 1 / 40)).min() >= 1 / 40 - 1e-12


def test_the_chart_has_a_bar_for_each_count() -> None:
    chart = draw_histogram(np.array([0.0, 0.05, 0.3]), "missed", "tasks", "label", limit=0.1)
    assert chart.wide.count('fill="var(--warn)"') >= 1
    assert chart.wide.count('fill="var(--good)"') >= 1
    assert "number of tasks" in chart.wide
