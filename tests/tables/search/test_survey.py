"""The first look: a small table is fetched in one pass, with the result of a search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac._common import ignore_progress
from metapac.columns import Columns
from metapac.data_checks import count_repeats
from metapac.tables import search
from metapac.tables.scores import Rows, true_scores
from metapac.tables.search import Sample, Slivers, take_survey
from metapac.tables.sources import Source, open_source
from tests.helpers.engines import ENGINES, as_if_large, connection, put


def rows_of(table: Any) -> Rows:
    source = open_source(table, connection=connection("duckdb"))
    return true_scores(source, Columns("task", "score"))


@pytest.mark.parametrize("engine", ENGINES)
def test_only_an_engine_in_this_process_hands_over_a_whole_table(engine: str) -> None:
    rows = rows_of(put(engine, pd.DataFrame({"task": ["a", "b", "a"], "score": [1.0, 2.0, 0.5]})))
    found = take_survey(rows)
    assert isinstance(found.found, Slivers if engine == "duckdb" else Sample)
    assert found.census.names.tolist() == ["a", "b"]
    scores, _repeats = found.order_statistics(np.array([[1, 0], [-1, 0]]), ignore_progress)
    assert scores.tolist() == [[1, 0.5], [-math.inf, 2]]


def test_a_table_is_small_up_to_a_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FETCH_ALL", 3)
    for count, kind in ((3, Slivers), (4, Sample)):
        table = pa.table({"task": ["a"] * count, "score": np.arange(float(count))})
        assert isinstance(take_survey(rows_of(table)).found, kind)


def test_a_small_table_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(self: Source, table: Any, run: Any = Source.run) -> Any:
        asked.append(list(table.columns))
        return run(self, table)

    monkeypatch.setattr(Source, "run", run)
    found = take_survey(rows_of(pa.table({"task": [1, 2], "score": [0.5, 0.25]})))
    found.order_statistics(np.zeros((2, 1), int), ignore_progress)
    assert asked == [["rows"], ["task", "size", "scores"]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["b", "a", "c", "\u00e9", ""]),
            st.floats(allow_nan=False, width=32) | st.sampled_from([-math.inf, -0.0, 0.0, 0.5]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_small_table_and_a_search_give_the_same(
    pairs: list[tuple[str, float]], kind: Any
) -> None:
    task, score = [name for name, _ in pairs], np.array([value for _, value in pairs], kind)
    rows = rows_of(pa.table({"task": task, "score": score}))
    small = take_survey(rows)
    with as_if_large(worth_sorting=1):
        large = take_survey(rows)
        sizes = large.census.sizes
        ranks = np.stack([sizes - 1, np.zeros_like(sizes), np.full_like(sizes, -1)], axis=1)
        expected, _ = large.order_statistics(ranks, ignore_progress)
    found, repeats = small.order_statistics(ranks, ignore_progress)
    assert found.dtype == np.float64
    assert found.tolist() == expected.tolist()
    assert repeats == count_repeats(np.unique(task, return_inverse=True)[1], score)
    assert small.census.names.tolist() == large.census.names.tolist() == sorted({*task})
    assert small.census.sizes.tolist() == sizes.tolist()
    assert small.census.low.dtype == kind
    assert small.census.low.tolist() == found[:, 1].tolist()
    assert small.census.high.tolist() == found[:, 0].tolist()


@pytest.mark.parametrize(
    ("task", "score", "message"),
    [
        (["a", "a", "b"], [1.0, None, 2.0], r"hold 1 null out of 3 values \(by task, 'a': 1\)"),
        (["a", "a", "b"], [1.0, math.nan, 2.0], r"hold 1 NaN out of 3 values \(by task, 'a': 1\)"),
        (["a", "a", "b"], [1.0, 2.0, None], r"hold 1 null out of 3 values \(by task, 'b': 1\)"),
        (["a", None, "b"], [1.0, 2.0, 3.0], "column 'task' is missing in 1 row"),
        ([], [], "holds no rows"),
    ],
)
def test_faults_of_a_small_table_are_reported(
    task: list[Any], score: list[Any], message: str
) -> None:
    table = pa.table({"task": pa.array(task, pa.string()), "score": pa.array(score, pa.float64())})
    with pytest.raises(ValueError, match=message):
        take_survey(rows_of(table))
