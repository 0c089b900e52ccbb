"""The first pass: sizes and ranges are right, and no score that cannot be used gets past it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from engines import ENGINES, connection, put, run

from metapac.tables.census import Census, take_census
from metapac.tables.layout import Layout
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source


def census(table: Any, trim: Any = None) -> Census:
    source = open_source(table, connection=connection("duckdb"))
    return take_census(true_scores(source, Layout("task", "score")), trim)


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_ranges_and_averages(engine: str) -> None:
    frame = pd.DataFrame(
        {"task": ["b", "a", "b", "b", "b"], "score": [1.0, 7.0, 3.0, 5.0, math.inf]}
    )
    found = census(put(engine, frame), (0.0, 6.0))
    assert found.names.tolist() == ["a", "b"]
    assert found.sizes.tolist() == [1, 4]
    assert found.low.tolist() == [7, 1]
    assert found.high.tolist() == [7, math.inf]
    np.testing.assert_allclose(found.mean, [math.nan, 3])  # of 1, 3, 5: infinity is trimmed
    np.testing.assert_allclose(found.spread, [math.nan, math.sqrt(8 / 3)])


def test_without_trim_nothing_is_averaged() -> None:
    found = census(pa.table({"task": [2, 1], "score": [0.5, 0.25]}))
    assert found.names.tolist() == [1, 2]
    assert found.names.dtype == np.int64
    assert np.isnan(found.mean).all()
    assert np.isnan(found.spread).all()


FAULTS = {
    "duckdb": "3 nulls and 2 NaN out of 9 values",
    "postgres": "3 nulls and 2 NaN out of 9 values",
    "spark": "3 nulls and 2 NaN out of 9 values",
    "sqlite": "5 nulls out of 9 values",  # where NaN is null
}


@pytest.mark.parametrize("engine", ENGINES)
def test_nulls_and_nan_are_counted_with_their_tasks(engine: str) -> None:
    score = [math.nan, 1.0, None, None, math.nan, 1.0, None, 1.0, 1.0]
    task = ["a", "a", "b", "c", "d", "d", "b", "e", "f"]
    table = put_mixed(engine, task, score)
    message = (
        rf"the scores hold {FAULTS[engine]} \(by task, 'a': 1, 'b': 2, 'c': 1 and 1 more\); a "
        "score that cannot be compared cannot be certified. Drop those rows or give them -inf."
    )
    with pytest.raises(ValueError, match=message):
        census(table)


def put_mixed(engine: str, task: list[str], score: list[float | None]) -> Any:
    """Both nulls and NaN: a pandas frame would make one of the other."""
    there = connection(engine)
    if engine == "duckdb":
        return pa.table({"task": task, "score": pa.array(score, pa.float64())})
    if engine == "spark":
        rows = list(zip(task, score, strict=True))
        frame = there._session.createDataFrame(rows, "task string, score double")
        frame.createOrReplaceTempView("mixed")
        return there.table("mixed")
    kind = "double precision" if engine == "postgres" else "real"
    values = ", ".join(f"('{t}', {_literal(s)})" for t, s in zip(task, score, strict=True))
    run(
        engine,
        "DROP TABLE IF EXISTS mixed",
        f"CREATE TABLE mixed (task text, score {kind})",
        f"INSERT INTO mixed VALUES {values}",
    )
    return there.table("mixed")


def _literal(score: float | None) -> str:
    if score is None:
        return "NULL"
    return "'NaN'" if math.isnan(score) else str(score)


EVERYTHING = (-math.inf, math.inf)


def test_where_all_scores_are_averaged_their_range_is_left_out() -> None:
    found = census(pa.table({"task": ["a", "a"], "score": [1.0, 3.0]}), EVERYTHING)
    assert (found.mean.tolist(), found.spread.tolist()) == ([2], [1])
    assert (found.low.tolist(), found.high.tolist()) == ([-math.inf], [math.inf])


@pytest.mark.parametrize("score", [-math.inf, math.inf, 1e200])
def test_a_score_that_no_average_bears_brings_the_range_back(score: float) -> None:
    found = census(pa.table({"task": ["a", "a", "b"], "score": [score, 3.0, 5.0]}), EVERYTHING)
    assert found.low.tolist() == [min(score, 3), 5]
    assert found.high.tolist() == [max(score, 3), 5]
    assert found.mean[1] == 5


@pytest.mark.parametrize(("score", "what"), [(math.nan, "1 NaN"), (None, "1 null")])
def test_averages_hide_no_fault(score: float | None, what: str) -> None:
    for scores in ([score, 1.0, 2.0], [score, -math.inf, math.inf]):
        table = pa.table({"task": ["a", "a", "b"], "score": pa.array(scores, pa.float64())})
        with pytest.raises(ValueError, match=rf"hold {what} out of 3 values \(by task, 'a': 1\)"):
            census(table, EVERYTHING)
