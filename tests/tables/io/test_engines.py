"""The traits of each engine are what the engine does."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import ibis
import numpy as np
import pandas as pd
import pytest

from metapac.tables.engines import Traits, traits_of
from tests.helpers.engines import ENGINES, connection, put, put_with_nan


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "sqlite"])
def test_nan_is_the_largest_number_if_the_traits_say_so(engine: str) -> None:
    there = connection(engine)
    traits = traits_of(there)
    table = put_with_nan(engine, ["a", "b"], [1.0, math.nan])
    counts = there.to_pyarrow(table.agg(count=table.score.count(), largest=table.score.max()))
    assert traits.has_nan
    assert counts["count"][0].as_py() == 2
    largest = counts["largest"].to_numpy()[0]  # a null, which Spark returns for NaN, is NaN here
    assert traits.nan_is_largest == np.isnan(largest)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_overflows_and_has_lists_if_its_traits_say_so(engine: str) -> None:
    there = connection(engine)
    table = put(engine, pd.DataFrame({"big": [1e300, 1e300]}))
    if traits_of(there).overflows_to_infinity:
        square = there.to_pyarrow(table.agg(x=(table.big * table.big).mean()))
        assert square["x"][0].as_py() == math.inf
    if traits_of(there).has_lists:
        lists = there.to_pyarrow(table.select(x=ibis.array([table.big, table.big])))
        assert lists["x"].to_pylist() == [[1e300, 1e300]] * 2


def test_an_engine_that_is_not_listed_is_treated_with_caution() -> None:
    traits = traits_of(SimpleNamespace(name="trino"))
    assert traits == Traits()
    assert not traits.nan_is_largest
    assert not traits.overflows_to_infinity


def test_sqlite_has_no_nan_and_mixes_types(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.sqlite")) as there:
        there.execute("CREATE TABLE t (x REAL)")
        there.executemany("INSERT INTO t VALUES (?)", [(1.5,), ("text",), (math.nan,)])
        kinds = there.execute("SELECT typeof(x) FROM t").fetchall()
    assert kinds == [("real",), ("text",), ("null",)]
    traits = traits_of(connection("sqlite"))
    assert traits.mixes_types
    assert not traits.has_nan
