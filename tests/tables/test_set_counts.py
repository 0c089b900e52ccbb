"""The summary of a table's sets is that of its arrays, on every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, InvalidInput, MetaPS, summarise_sets
from metapac.tables.scores import FEW_CLASSES
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import predict_table
from tests.helpers.tables import summarise_table as summarise_table

RNG = np.random.default_rng(0)
PROMISE = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3).calibrate(
    RNG.random(400), np.repeat(np.arange(10), 40)
)


def table_of(scores: Any) -> pd.DataFrame:
    return pd.DataFrame({f"p_{j}": scores[:, j] for j in range(scores.shape[1])})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [3, FEW_CLASSES + 1])
def test_summaries_agree_with_arrays(engine: str, count: int) -> None:
    scores = np.random.default_rng(1).random((30, count))
    scores[0], scores[1], scores[2, 0], scores[3, 1] = 0, 1, math.inf, -math.inf
    scores[:, 2], scores[4, 1], scores[5, 1] = 0, -0.25, 1.5  # the ends are in one class
    summary = summarise_table(PROMISE, put(engine, table_of(scores)))
    expected = summarise_sets(PROMISE.predict_set(scores), [str(j) for j in range(count)])
    assert summary.by_class == expected.by_class
    for name in ("rows", "empty", "single", "full"):
        assert getattr(summary, name) == getattr(expected, name)
    assert summary.mean_size == pytest.approx(expected.mean_size)
    finite = scores[np.isfinite(scores)]
    assert (summary.low, summary.high) == (finite.min(), finite.max())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [3, FEW_CLASSES + 1])
@pytest.mark.parametrize("missing", [math.nan, None])
def test_missing_scores_are_counted_by_class(engine: str, count: int, missing: Any) -> None:
    table = table_of(np.full((4, count), 0.5)).astype(object)
    table.iloc[1, 2] = table.iloc[2, 2] = table.iloc[2, 0] = missing
    frame = table.convert_dtypes() if missing is None else table.astype(float)
    with pytest.raises(InvalidInput, match=r"NaN in 2 of 4 rows \(by class, '0': 1, '2': 2\)"):
        summarise_table(PROMISE, put(engine, frame))


def test_an_empty_table_has_an_empty_summary() -> None:
    summary = summarise_table(PROMISE, table_of(np.empty((0, 2))))
    assert (summary.rows, summary.by_class, summary.low) == (0, {"0": 0, "1": 0}, None)
    assert not summary.warnings()


def test_a_table_warns_of_sets_that_are_all_alike() -> None:
    scores = np.tile([0.9, 0.0], (200, 1))
    with pytest.warns(UserWarning, match="All 200 sets are alike: each contains '0' and nothing"):
        predict_table(PROMISE, table_of(scores))


def test_ranges_are_those_of_calibration() -> None:
    low, high = PROMISE._score_range or (0, 0)
    assert 0 < low < 0.01 < 0.99 < high < 1
    assert PS(epsilon=0.1, delta=0.1).calibrate([0.5] * 50)._score_range is None
