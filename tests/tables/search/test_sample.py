"""Hints from the first rows are rough, but close enough on the data they are meant for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from metapac.columns import Columns
from metapac.tables.scores import Rows, true_scores
from metapac.tables.search import (
    Bounds,
    Brackets,
    Shape,
    Spans,
    averaging_bounds,
    estimate_shape,
    guess,
    take_census,
    take_sample,
)
from metapac.tables.sources import open_source
from tests.helpers.engines import ENGINES, as_if_large, connection, put

EVERYTHING = (-math.inf, math.inf)


def rows_of(table: Any) -> Rows:
    source = open_source(table, connection=connection("duckdb"))
    return true_scores(source, Columns(task="task", score="score"))


def bounds_of(rows: Rows) -> Bounds | None:
    return averaging_bounds(take_sample(rows), rows.source.traits)


def table_of(scores: NDArray[Any]) -> Any:
    return pa.table({"task": np.arange(len(scores)) % 5, "score": scores})


@pytest.mark.parametrize(
    ("extra", "bounded"),
    [([], False), ([math.inf], True), ([-math.inf], True), ([1e20], True), ([-1e20], True)],
)
def test_outliers_are_not_averaged(extra: list[float], bounded: bool) -> None:
    scores = np.concatenate([extra, np.random.default_rng(0).normal(size=500)])
    with as_if_large():
        result = bounds_of(rows_of(table_of(scores)))
    assert result is not None
    assert math.isfinite(result[0]) == math.isfinite(result[1]) == bounded
    if bounded:
        assert -4 < result[0] < -1
        assert 1 < result[1] < 4


def test_small_and_tied_tables_have_no_bounds() -> None:
    assert bounds_of(rows_of(table_of(np.random.default_rng(0).normal(size=500)))) is None
    with as_if_large():
        assert bounds_of(rows_of(table_of(np.full(500, 0.5)))) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_that_fail_on_overflow_have_bounds(engine: str) -> None:
    frame = table_of(np.random.default_rng(0).normal(size=500)).to_pandas()
    with as_if_large():
        result = bounds_of(rows_of(put(engine, frame)))
    assert result is not None
    assert math.isfinite(result[0]) == (engine not in ("duckdb", "spark"))


def test_postgres_handles_scores_whose_squares_overflow() -> None:
    scores = np.random.default_rng(0).normal(size=500)
    scores[100:110] = 1e200
    rows = rows_of(put("postgres", pd.DataFrame({"task": "a", "score": scores})))
    with as_if_large():
        census = take_census(rows, bounds_of(rows))
    assert abs(census.mean[0]) < 1


def test_the_shape_is_that_of_the_scores() -> None:
    rng = np.random.default_rng(0)
    tasks = rng.integers(0, 10, 400)
    scores = 5 * tasks + (1 + tasks) * rng.normal(size=400)
    rows = rows_of(pa.table({"task": tasks, "score": scores}))
    with as_if_large():
        shape = estimate_shape(rows, take_census(rows, EVERYTHING), take_sample(rows))
    assert shape is not None
    for values, shares in zip(shape.values, shape.shares, strict=True):
        assert (np.diff(values) >= 0).all()
        # Of 200 values, every second: the standard normal to within 0.25.
        np.testing.assert_allclose(
            np.interp([0.2, 0.5, 0.8], shares, values), [-0.84, 0, 0.84], atol=0.25
        )


def test_without_averages_there_is_no_shape() -> None:
    rows = rows_of(table_of(np.arange(10.0)))
    assert estimate_shape(rows, take_census(rows), take_sample(rows)) is None
    tied = rows_of(table_of(np.ones(10)))
    assert estimate_shape(tied, take_census(tied, EVERYTHING), take_sample(tied)) is None


STEP = Shape(np.zeros(1, int), [np.arange(-50.0, 51)], [np.linspace(0.005, 0.995, 101)])


def around(
    ranks: list[int], low: float, high: float, below: int, inside: int, mean: float = 0
) -> tuple[float, float, float, float]:
    """Return floor, ceiling, and the number of scores expected below and up to them."""
    one = (np.full(len(ranks), value) for value in (low, high, below, inside))
    spans = Spans.of_brackets(Brackets(np.zeros(len(ranks), int), np.array(ranks), *one))
    floor, ceiling, expected = guess(spans, np.array([mean]), np.ones(1), STEP)
    return float(floor[0]), float(ceiling[0]), *expected[:, 0].tolist()


def test_a_guess_is_about_the_rank() -> None:
    floor, ceiling, less, seen = around([2500], -50.0, 50.0, 0, 10_000)
    assert floor < -25 < ceiling
    assert ceiling - floor < 10
    # Three standard deviations of the rank, 130, and thirty for the shape.
    np.testing.assert_allclose([2500 - less, seen - 2500], 160, atol=1)
    floor, ceiling, *_ = around([500], -50.0, -40.0, 0, 1000)  # half-way between the ends
    assert floor < -45 < ceiling
    assert ceiling - floor < 2
    floor, _ceiling, less, _seen = around([3], -50.0, 50.0, 0, 10_000)  # it includes the end
    assert (floor, less) == (-50, 0)


def test_a_guess_is_about_all_ranks_of_a_span() -> None:
    floor, ceiling, less, seen = around([1000, 1500, 2500], -50.0, 50.0, 0, 10_000)
    lowest, highest = around([1000], -50.0, 50.0, 0, 10_000), around([2500], -50.0, 50.0, 0, 10_000)
    assert (floor, less) == lowest[::2]
    assert (ceiling, seen) == highest[1::2]


def test_nothing_is_guessed_outside_the_sample() -> None:
    assert math.isnan(around([10], 60.0, 70.0, 0, 100)[0])
    assert math.isnan(around([10], -1.0, 1.0, 0, 100, mean=math.nan)[0])


def test_rows_without_a_task_or_a_score_are_left_out() -> None:
    table = pa.table({"task": ["b", None, "a", "b", "a"], "score": [1.0, 2.0, math.nan, None, 5.0]})
    sample = take_sample(rows_of(table), 10)
    assert [sample.names[i] for i in sample.task] == ["b", "a"]
    assert sample.scores.tolist() == [1, 5]
    assert len(take_sample(rows_of(table), 1).scores) == 1
