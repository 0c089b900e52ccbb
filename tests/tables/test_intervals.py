"""Intervals in tables: the ends of the array route to the last bit, and their summary."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metapac import PS, InvalidInput
from metapac.tables.sets import IntervalSummary, summarise_intervals
from metapac.tables.sources import open_source
from tests.helpers import engines
from tests.helpers.tables import calibrate_table, predict_table
from tests.tables.test_residuals import COLUMNS, PROMISE, make_sites

NUMBERS = st.floats(-1e100, 1e100)
SCALES = st.floats(1e-100, 1e100)


def calibrate_to(threshold: float) -> PS:
    """Return a predictor with a given threshold."""
    return PS(epsilon=0.5, delta=0.5).calibrate(np.full(20, threshold))


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("has_scale", [True, False])
def test_ends_are_those_of_the_arrays(engine: str, has_scale: bool) -> None:
    frame = make_sites(sites=20)
    promise = calibrate_to(-1.2345678901234567)
    scale = "sd" if has_scale else None
    table = predict_table(promise, engines.put(engine, frame), prediction="guess", scale=scale)
    result = table.to_pandas().sort_values("guess")
    frame = frame.sort_values("guess")
    expected = promise.predict_interval(frame.guess, frame.sd if has_scale else 1.0)
    np.testing.assert_array_equal(result[["lower", "upper"]].to_numpy(), expected)


@example(rows=[(0.0, 1e-300)], threshold=-0.0)
@settings(max_examples=40)  # of many rows each, since a query takes long
@given(
    rows=st.lists(st.tuples(NUMBERS, SCALES), min_size=1, max_size=80),
    threshold=st.floats(-1e50, -0.0),
)
def test_ends_are_exact_for_any_number(rows: list[tuple[float, float]], threshold: float) -> None:
    frame = pd.DataFrame(rows, columns=["guess", "sd"])
    promise = calibrate_to(threshold)
    table = predict_table(promise, frame, prediction="guess", scale="sd")
    expected = promise.predict_interval(frame.guess, frame.sd)
    np.testing.assert_array_equal(table.to_pandas()[["lower", "upper"]].to_numpy(), expected)


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_a_trivial_guarantee_gives_infinite_intervals(engine: str) -> None:
    frame = make_sites(sites=2, examples=3)
    promise = calibrate_table(frame, task="site", **COLUMNS, **PROMISE, on_infeasible="trivial")
    with pytest.warns(UserWarning, match="All intervals are infinite: the calibration tasks were"):
        result = predict_table(promise, engines.put(engine, frame)).to_pandas()
    assert result.lower.tolist() == [-math.inf] * 6
    assert result.upper.tolist() == [math.inf] * 6


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("rows", [1, 6, 7])
def test_the_summary_counts_widths(engine: str, rows: int) -> None:
    half = np.arange(1.0, rows + 1)
    table = engines.put(engine, pd.DataFrame({"half": half}))
    with open_source(table) as source:
        part = source.table.half
        summary = summarise_intervals(source, -part, part)
    assert summary == IntervalSummary(rows, 0, float(np.mean(2 * half)), float(np.median(2 * half)))
    assert summary.warnings() == []
    assert summary.to_dict()["rows"] == rows


def test_infinite_widths_are_counted_apart() -> None:
    frame = pd.DataFrame({"half": [1.0, math.inf, 3.0]})
    with open_source(frame) as source:
        summary = summarise_intervals(source, -source.table.half, source.table.half)
    assert summary == IntervalSummary(3, 1, 4.0, 4.0)
    assert summary.warnings()[0].startswith("1 of 3 intervals are infinite")


def test_an_empty_table_has_no_widths(tmp_path: Path) -> None:
    promise = calibrate_to(-1.0)
    empty = make_sites().head(0)
    assert len(predict_table(promise, empty, prediction="guess").to_pandas()) == 0
    with open_source(empty) as source:
        summary = summarise_intervals(source, source.table.guess, source.table.guess)
    assert summary == IntervalSummary(0, 0, None, None)


def test_columns_that_exist_are_not_overwritten(tmp_path: Path) -> None:
    frame = make_sites().assign(Upper=1.0)
    with pytest.raises(InvalidInput, match="already has a column 'upper'. Rename or drop it"):
        predict_table(calibrate_to(-1.0), frame, prediction="guess")
    path = tmp_path / "out.csv"
    predict_table(calibrate_to(-1.0), make_sites(), prediction="guess", output=path)
    assert pd.read_csv(path).columns.tolist() == ["site", "guess", "sd", "truth", "lower", "upper"]
