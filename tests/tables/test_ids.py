"""Booleans, dates, timestamps and whole floats name tasks and labels alike on every engine."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS, inputs
from metapac.tables.columns import get_id_column
from metapac.tables.sources import open_source
from tests.helpers import engines
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table

PROMISE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2}
INSTANTS = pd.to_datetime(
    [
        "2024-01-31",
        "2024-01-31 10:20:30",
        "2024-02-01 23:59:59.12",
        "0987-05-06",
        "2024-12-31 00:01",
    ],
    format="ISO8601",
)
NAMES = [
    "2024-01-31",
    "2024-01-31T10:20:30",
    "2024-02-01T23:59:59.12",
    "0987-05-06",
    "2024-12-31T00:01:00",
]


def read_names(engine: str, values: Any) -> list[Any]:
    """Return the distinct names that a column of an engine gives."""
    with open_source(engines.put(engine, pd.DataFrame({"id": values}))) as source:
        column = get_id_column(source, "id", "tasks")
        result = source.run(source.table.select(id=column))
    return list(result["id"].to_pylist())


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_timestamps_and_dates_are_named_as_in_arrays(engine: str) -> None:
    assert inputs.as_task_ids(INSTANTS).tolist() == NAMES
    assert sorted(read_names(engine, INSTANTS)) == sorted(NAMES)
    days = [datetime.date(2024, 1, 31), datetime.date(987, 5, 6)]
    assert sorted(read_names(engine, days)) == sorted(inputs.as_task_ids(days).tolist())


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_a_time_zone_is_named_in_utc_whatever_the_session_is_in(engine: str) -> None:
    there = pd.Series(INSTANTS[[0, 1, 2]].tz_localize("Europe/Berlin"))
    names = ["2024-01-30T23:00:00", "2024-01-31T09:20:30", "2024-02-01T22:59:59.12"]
    assert inputs.as_task_ids(there).tolist() == names
    assert sorted(read_names(engine, there)) == names
    engines.run(engine, "SET TimeZone = 'Asia/Tokyo'")
    try:
        assert sorted(read_names(engine, there)) == names
    finally:
        engines.run(engine, "SET TimeZone = 'UTC'")


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_booleans_are_named_as_pandas_names_them(engine: str) -> None:
    assert sorted(read_names(engine, [True, False, True])) == ["False", "True", "True"]
    assert inputs.as_task_ids([True, False]).tolist() == ["True", "False"]


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_whole_floats_are_integers_and_nan_is_missing(engine: str) -> None:
    values = read_names(engine, [3.0, -2.0, None, 0.0])
    assert [x for x in values if x is None] == [None]
    assert sorted(x for x in values if x is not None) == [-2, 0, 3]
    assert all(isinstance(x, int) for x in values if x is not None)


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("bad", [1.5, 1e300, -(2.0**54)])
def test_other_floats_are_refused_with_their_number(engine: str, bad: float) -> None:
    with pytest.raises(InvalidInput, match="fractions or very large numbers in 2 rows"):
        read_names(engine, [1.0, bad, bad])


def test_other_types_are_refused() -> None:
    frame = pd.DataFrame({"site": [[1], [2]], "score": [0.1, 0.2]})
    with pytest.raises(InvalidInput, match=r"column 'site' must hold strings or .* got array<int"):
        calibrate_table(frame, task="site", score="score", **PROMISE)


def make_examples() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=60, freq="36h")
    p = rng.random(60 * 20)
    return pd.DataFrame(
        {
            "day": np.repeat(days, 20),
            "sick": rng.random(len(p)) < p,
            "p_False": 1 - p,
            "p_True": p,
        }
    )


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("per_class", [False, True])
def test_the_promise_of_a_table_is_that_of_its_arrays(engine: str, per_class: bool) -> None:
    frame = make_examples()
    by_table = calibrate_table(
        engines.put(engine, frame), task="day", label="sick", per_class=per_class, **PROMISE
    )
    by_array = MetaPS(per_class=per_class, **PROMISE).calibrate(
        frame[["p_False", "p_True"]].to_numpy(), frame.day, frame.sick, classes=[False, True]
    )
    assert by_table.tasks_.tolist() == by_array.tasks_.tolist()
    assert by_table.tasks_[:2].tolist() == ["2024-01-01", "2024-01-02T12:00:00"]
    name = "thresholds_" if per_class else "threshold_"
    np.testing.assert_array_equal(getattr(by_table, name), getattr(by_array, name))


def test_a_boolean_promise_of_either_route_serves_the_other(tmp_path: Path) -> None:
    frame = make_examples()
    scores = frame[["p_False", "p_True"]].to_numpy()
    by_array = MetaPS(per_class=True, **PROMISE).calibrate(
        scores, frame.day, frame.sick, classes=[False, True]
    )
    by_array.save(tmp_path / "promise.json")
    sets = predict_table(by_array, frame).to_pandas()
    kept = by_array.predict_set(scores)
    assert [list(x) for x in sets["set"]] == [
        [name for name, is_in in zip(["False", "True"], row, strict=True) if is_in] for row in kept
    ]
    later = frame.assign(day=frame.day + pd.Timedelta(days=365))
    evaluation = evaluate_table(by_array, later, task="day", label="sick", allow=["duplicates"])
    assert [part.label for part in evaluation.classes or ()] == [False, True]
    chosen = calibrate_table(frame, task="day", label="sick", classes=[False, True], **PROMISE)
    assert chosen.columns_ is not None
    assert chosen.columns_["classes"] == ["False", "True"]
