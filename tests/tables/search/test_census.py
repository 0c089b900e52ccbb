"""The first pass: sizes and ranges are right, and unusable scores are rejected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac.columns import Columns
from metapac.tables.scores import true_scores
from metapac.tables.search import Census, take_census
from metapac.tables.sources import open_source
from tests.helpers.engines import ENGINES, connection, put, put_with_nan


def census(table: Any, bounds: Any = None) -> Census:
    source = open_source(table, connection=connection("duckdb"))
    return take_census(true_scores(source, Columns(task="task", score="score")), bounds)


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_ranges_and_averages(engine: str) -> None:
    frame = pd.DataFrame(
        {"task": ["b", "a", "b", "b", "b"], "score": [1.0, 7.0, 3.0, 5.0, math.inf]}
    )
    result = census(put(engine, frame), (0.0, 6.0))
    assert result.names.tolist() == ["a", "b"]
    assert result.sizes.tolist() == [1, 4]
    assert result.low.tolist() == [7, 1]
    assert result.high.tolist() == [7, math.inf]
    np.testing.assert_allclose(result.mean, [math.nan, 3])  # of 1, 3, 5: infinity is outside
    np.testing.assert_allclose(result.spread, [math.nan, math.sqrt(8 / 3)])


def test_without_bounds_nothing_is_averaged() -> None:
    result = census(pa.table({"task": [2, 1], "score": [0.5, 0.25]}))
    assert result.names.tolist() == [1, 2]
    assert result.names.dtype == np.int64
    assert np.isnan(result.mean).all()
    assert np.isnan(result.spread).all()


FAULTS = {
    "duckdb": "4 nulls and 3 NaN out of 10 values",
    "postgres": "4 nulls and 3 NaN out of 10 values",
    "spark": "4 nulls and 3 NaN out of 10 values",
    "sqlite": "7 nulls out of 10 values",  # where NaN is null
}


@pytest.mark.parametrize("engine", ENGINES)
def test_nulls_and_nan_are_counted_with_their_tasks(engine: str) -> None:
    score = [math.nan, 1.0, None, None, math.nan, 1.0, None, None, math.nan, 1.0]
    task = ["a", "a", "b", "c", "d", "d", "b", "e", "f", "g"]
    table = put_with_nan(engine, task, score)
    message = (
        rf"the scores hold {FAULTS[engine]} \(by task, 'a': 1, 'b': 2, 'c': 1, 'd': 1, 'e': 1 "
        r"and 1 more\); a score that cannot be compared cannot be certified. Drop those rows\.$"
    )
    with pytest.raises(ValueError, match=message):
        census(table)


EVERYTHING = (-math.inf, math.inf)


def test_averages_and_ranges() -> None:
    result = census(pa.table({"task": ["a", "a"], "score": [1.0, 3.0]}), EVERYTHING)
    assert (result.mean.tolist(), result.spread.tolist()) == ([2], [1])
    assert (result.low.tolist(), result.high.tolist()) == ([1], [3])


@pytest.mark.parametrize("score", [-math.inf, math.inf, 1e200])
def test_ranges_if_an_average_overflows(score: float) -> None:
    result = census(pa.table({"task": ["a", "a", "b"], "score": [score, 3.0, 5.0]}), EVERYTHING)
    assert result.low.tolist() == [min(score, 3), 5]
    assert result.high.tolist() == [max(score, 3), 5]
    assert result.mean[1] == 5


@pytest.mark.parametrize(("score", "what"), [(math.nan, "1 NaN"), (None, "1 null")])
def test_averages_do_not_hide_missing_scores(score: float | None, what: str) -> None:
    for scores in ([score, 1.0, 2.0], [score, -math.inf, math.inf]):
        table = pa.table({"task": ["a", "a", "b"], "score": pa.array(scores, pa.float64())})
        with pytest.raises(ValueError, match=rf"hold {what} out of 3 values \(by task, 'a': 1\)"):
            census(table, EVERYTHING)
