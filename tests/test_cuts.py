"""The cut inside an engine keeps what ``predict_set`` keeps, to the last bit."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
from engines import ENGINES, connection, run
from hypothesis import given
from hypothesis import strategies as st

from metapac import PS, MetaPS
from metapac.tables.cuts import cut_of, cuts_of, exact, kept, least_kept, total

EXTREME = [0.1, -0.1, 1 / 3, 0.0, 1.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 1e23]
KINDS = [np.float16, np.float32, np.float64]


def promise(threshold: float, kind: Any) -> PS:
    """A promise of a given threshold and precision: that of equal scores."""
    return PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, threshold, dtype=kind))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_reaches_the_engine_as_it_is(engine: str) -> None:
    values = [*EXTREME, *np.random.default_rng(0).normal(size=20).tolist()]
    there = connection(engine)
    dummy = there.table(dummy_table(engine))
    found = there.to_pyarrow(dummy.select(**{f"x{i}": exact(v) for i, v in enumerate(values)}))
    assert [column[0].as_py() for column in found.columns] == values


def dummy_table(engine: str) -> str:
    if engine == "spark":
        connection(engine)._session.range(1).createOrReplaceTempView("one_row")
    else:
        run(engine, "DROP TABLE IF EXISTS one_row", "CREATE TABLE one_row AS SELECT 1 AS id")
    return "one_row"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_exact(value: float) -> None:
    found = connection("duckdb").to_pyarrow(exact(value).name("x").as_table())
    assert found["x"][0].as_py() == value


@given(
    st.sampled_from(KINDS),
    st.sampled_from([np.float32, np.float64]),
    st.floats(allow_nan=False, width=16),
    st.integers(-3, 3),
)
def test_the_least_kept_score_is_the_least(
    calibrated: Any, table: Any, value: float, off: int
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        threshold = calibrated(value)
        for _ in range(abs(off)):
            threshold = np.nextafter(threshold, calibrated(np.inf * np.sign(off)))
        found = promise(threshold, calibrated)
        least = table(cut_of(found, np.dtype(table)))
        below = np.nextafter(least, table(-np.inf))
    assert float(least) == cut_of(found, np.dtype(table))
    assert found.predict_set([least]).all()
    if least > -np.inf:
        assert not found.predict_set(np.array([below])).any()


def of_classes(thresholds: list[float], kind: Any) -> MetaPS:
    """A promise for each class, whose thresholds are those of equal scores."""
    scores = np.tile(np.array(thresholds, kind), 500)
    labels = np.tile([f"c{i}" for i in range(len(thresholds))], 500)
    tasks = np.repeat(np.arange(50), len(scores) // 50)
    method = MetaPS(epsilon=0.5, alpha=0.5, delta=0.1, per_class=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scores that tie at the bottom
        return method.calibrate(scores, tasks, labels)


@pytest.mark.parametrize("calibrated", KINDS)
@pytest.mark.parametrize("table", [np.float32, np.float64])
def test_each_class_has_its_own_least_score(calibrated: Any, table: Any) -> None:
    thresholds = [0.1, -1 / 3, 0.0, 5.0, -1e-7]
    found = of_classes(thresholds, calibrated)
    names = [f"c{i}" for i in range(5)]
    cuts = np.array(cuts_of(found, names, np.dtype(table)), table)
    assert found.predict_set([cuts]).all()
    assert not found.predict_set([np.nextafter(cuts, table(-np.inf))]).any()
    assert cuts_of(found, names[::-1], np.dtype(table)) == cuts[::-1].tolist()
    with pytest.raises(ValueError, match="classes must be among those of the promise, 'c0', 'c1',"):
        cuts_of(found, ["c0", "x"], np.dtype(table))


def test_twenty_thousand_thresholds_are_one_search() -> None:
    rng = np.random.default_rng(0)
    thresholds = rng.normal(size=20_000).astype(np.float32).astype(float)
    thresholds[:3] = -np.inf, np.inf, 0.0
    start = time.perf_counter()
    found = least_kept(thresholds, np.dtype(np.float32), np.dtype(np.float64))
    assert time.perf_counter() - start < 2
    with np.errstate(over="ignore"):  # beyond the range of single precision lies infinity
        assert (found.astype(np.float32) >= thresholds.astype(np.float32)).all()
        below = np.nextafter(found[1:], -np.inf).astype(np.float32)
    assert (below < thresholds[1:].astype(np.float32)).all()


@pytest.mark.parametrize("cut", [-math.inf, -1.5, 0.1, math.inf])
def test_what_is_kept(cut: float) -> None:
    scores = [-math.inf, -1.5, math.nextafter(-1.5, -2), 0.1, math.nextafter(0.1, 0), math.inf]
    table = ibis.memtable(pa.table({"score": scores}))
    found = connection("duckdb").to_pyarrow(table.select(kept=kept(table.score, cut)))
    assert found["kept"].to_pylist() == [score >= cut for score in scores]


def test_single_precision_is_compared_as_the_number_it_is() -> None:
    score = np.float32(0.1)
    table = ibis.memtable(pa.table({"score": pa.array([score])}))
    for cut, expected in [
        (float(score), True),
        (0.1, True),
        (np.nextafter(float(score), 1), False),
    ]:
        found = connection("duckdb").to_pyarrow(table.select(kept=kept(table.score, cut)))
        assert found["kept"][0].as_py() is expected


def test_a_sum_of_many_terms() -> None:
    for count in (1, 2, 8, 9, 300):
        assert total(list(range(count))) == sum(range(count))


@pytest.mark.parametrize("engine", ENGINES)
def test_infinity_is_above_the_largest_number(engine: str) -> None:
    most = float(np.finfo(np.float64).max)
    there = connection(engine)
    dummy = there.table(dummy_table(engine))
    found = there.to_pyarrow(dummy.select(kept=kept(exact(most), math.inf).ifelse(1, 0)))
    assert found["kept"].to_pylist() == [0]
