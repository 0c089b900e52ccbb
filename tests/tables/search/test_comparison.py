"""The comparison inside an engine keeps what ``predict_set`` keeps, to the last bit."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import PS, MetaPS
from metapac.tables.expressions import exact
from metapac.tables.sets import is_kept, smallest_kept_scores
from tests.helpers.engines import ENGINES, connection, one_row

KINDS = [np.float16, np.float32, np.float64]


def promise(threshold: float, kind: Any) -> PS:
    """Return a predictor with a given threshold and precision, calibrated on equal scores."""
    return PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, threshold, dtype=kind))


@given(
    st.sampled_from(KINDS),
    st.sampled_from([np.float32, np.float64]),
    st.floats(allow_nan=False, width=16),
    st.integers(-3, 3),
)
def test_the_smallest_kept_score_is_the_smallest(
    calibrated: Any, table: Any, value: float, off: int
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        threshold = calibrated(value)
        for _ in range(abs(off)):
            threshold = np.nextafter(threshold, calibrated(np.inf * np.sign(off)))
        result = promise(threshold, calibrated)
        cut = find_cuts(result, None, table)[0]
        smallest = table(cut)
        below = np.nextafter(smallest, table(-np.inf))
    assert float(smallest) == cut
    assert result.predict_set([smallest]).all()
    if smallest > -np.inf:
        assert not result.predict_set(np.array([below])).any()


def find_cuts(result: PS | MetaPS, names: list[str] | None, table: Any) -> list[float]:
    """Return the smallest score of each class that is kept in a table of some precision."""
    thresholds = np.ravel(result._thresholds_of(names))
    cuts = smallest_kept_scores(thresholds, result.precision_, np.dtype(table))
    return [float(cut) for cut in cuts]


def of_classes(thresholds: list[float], kind: Any) -> MetaPS:
    """Return a predictor with given thresholds per class, calibrated on equal scores."""
    scores = np.tile(np.array(thresholds, kind), 500)
    labels = np.tile([f"c{i}" for i in range(len(thresholds))], 500)
    tasks = np.repeat(np.arange(50), len(scores) // 50)
    method = MetaPS(epsilon=0.5, alpha=0.5, delta=0.1, per_class=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scores that tie at the bottom
        return method.calibrate(scores, tasks, labels, allow=("duplicates",))


@pytest.mark.parametrize("calibrated", KINDS)
@pytest.mark.parametrize("table", [np.float32, np.float64])
def test_each_class_has_its_own_smallest_score(calibrated: Any, table: Any) -> None:
    thresholds = [0.1, -1 / 3, 0.0, 5.0, -1e-7]
    result = of_classes(thresholds, calibrated)
    names = [f"c{i}" for i in range(5)]
    cuts = np.array(find_cuts(result, names, table), table)
    assert result.predict_set([cuts]).all()
    assert not result.predict_set([np.nextafter(cuts, table(-np.inf))]).any()
    assert find_cuts(result, names[::-1], table) == cuts[::-1].tolist()
    with pytest.raises(ValueError, match="classes must be among the calibrated ones, 'c0', 'c1',"):
        find_cuts(result, ["c0", "x"], table)


def test_twenty_thousand_thresholds_are_one_search() -> None:
    rng = np.random.default_rng(0)
    thresholds = rng.normal(size=20_000).astype(np.float32).astype(float)
    thresholds[:3] = -np.inf, np.inf, 0.0
    start = time.perf_counter()
    result = smallest_kept_scores(thresholds, np.dtype(np.float32), np.dtype(np.float64))
    assert time.perf_counter() - start < 2
    with np.errstate(over="ignore"):  # overflow to inf is intended
        assert (result.astype(np.float32) >= thresholds.astype(np.float32)).all()
        below = np.nextafter(result[1:], -np.inf).astype(np.float32)
    assert (below < thresholds[1:].astype(np.float32)).all()


@pytest.mark.parametrize("cut", [-math.inf, -1.5, 0.1, math.inf])
def test_what_is_kept(cut: float) -> None:
    scores = [-math.inf, -1.5, math.nextafter(-1.5, -2), 0.1, math.nextafter(0.1, 0), math.inf]
    table = ibis.memtable(pa.table({"score": scores}))
    result = connection("duckdb").to_pyarrow(table.select(kept=is_kept(table.score, cut)))
    assert result["kept"].to_pylist() == [score >= cut for score in scores]


def test_single_precision_is_compared_without_rounding() -> None:
    score = np.float32(0.1)
    table = ibis.memtable(pa.table({"score": pa.array([score])}))
    for cut, expected in [
        (float(score), True),
        (0.1, True),
        (np.nextafter(float(score), 1), False),
    ]:
        result = connection("duckdb").to_pyarrow(table.select(kept=is_kept(table.score, cut)))
        assert result["kept"][0].as_py() is expected


@pytest.mark.parametrize("engine", ENGINES)
def test_infinity_is_above_the_largest_number(engine: str) -> None:
    most = float(np.finfo(np.float64).max)
    there = connection(engine)
    dummy = one_row(engine)
    result = there.to_pyarrow(dummy.select(kept=is_kept(exact(most), math.inf).ifelse(1, 0)))
    assert result["kept"].to_pylist() == [0]
