"""Scores near ranks: rows and lists give the same, and repeats are counted."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac.data_checks import count_repeats
from metapac.tables import search
from metapac.tables.search import Slivers, fetch_slivers
from metapac.tables.sources import open_source
from tests.helpers.engines import ENGINES, connection, put

SPANS = 5
FLOOR = np.array([0.5, -1.0, 0.0, 0.25, 0.5])


def near(seed: int = 0) -> Any:
    """Return scores with ties in four of five spans."""
    rng = np.random.default_rng(seed)
    span = rng.choice([0, 1, 2, 4], 200).astype(np.int32)
    score = rng.integers(-4, 5, 200) / 4
    return pa.table({"span": span, "score": score, "floor": FLOOR[span]})


def check(found: Slivers, table: Any) -> None:
    span, score = (table[name].to_numpy() for name in ("span", "score"))
    for i in range(SPANS):
        own = np.sort(score[span == i])
        assert found.seen[i] == len(own)
        assert found.less[i] == (own < FLOOR[i]).sum()
        picked = found.pick(np.full(len(own) + 2, i), np.arange(-1, len(own) + 1))
        expected = [np.nan, *np.where(own >= FLOOR[i], own, np.nan), np.nan]
        np.testing.assert_array_equal(picked, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_same(engine: str) -> None:
    table = near()
    with open_source(put(engine, table.to_pandas())) as source:
        check(fetch_slivers(source, source.table, FLOOR, 200), table)


@pytest.mark.parametrize("batch", [7, 1 << 16])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("expected", [200, search.MOST + 1], ids=["rows", "lists"])
def test_rows_and_lists_are_the_same(
    expected: float, kind: Any, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BATCH", batch)
    table = near(1)
    table = table.set_column(1, "score", table["score"].cast(pa.from_numpy_dtype(kind)))
    with open_source(table, connection=connection("duckdb")) as source:
        found = fetch_slivers(source, source.table, FLOOR.astype(kind), expected)
    assert found.scores.dtype == kind
    check(found, table)


@pytest.mark.parametrize("expected", [0, search.MOST + 1], ids=["rows", "lists"])
def test_spans_without_scores_are_empty(expected: float) -> None:
    nothing = ibis.memtable(near().slice(0, 0))
    with open_source(nothing, connection=connection("duckdb")) as source:
        found = fetch_slivers(source, source.table, FLOOR, expected)
    assert found.seen.tolist() == found.sizes.tolist() == [0] * SPANS
    assert found.count_repeats(np.ones(SPANS, int), 10) == {}
    assert np.isnan(found.pick(np.arange(SPANS), np.zeros(SPANS, int))).all()


def slivers_of(lists: list[list[float]]) -> Slivers:
    sizes = np.array([len(scores) for scores in lists])
    scores = np.array([score for scores in lists for score in sorted(scores)], float)
    return Slivers(sizes, sizes, np.cumsum(sizes) - sizes, scores)


@given(
    st.lists(st.lists(st.sampled_from([-0.0, 0.0, 1.0, 2.0, np.inf])), min_size=1, max_size=6),
    st.integers(1, 20),
)
def test_repeats_are_those_of_arrays(lists: list[list[float]], batch: int) -> None:
    with mock.patch.object(search, "_BATCH", batch):
        found = slivers_of(lists).count_repeats(np.array([len(scores) for scores in lists]), 10**6)
    task = np.repeat(np.arange(len(lists)), [len(scores) for scores in lists])
    assert found == count_repeats(task, np.array([score for scores in lists for score in scores]))


def test_repeats_are_counted_in_whole_spans_and_by_the_size_of_the_task() -> None:
    found = slivers_of([[1, 1, 2], [2, 2], [], [2, 3]])
    sizes: NDArray[np.int64] = np.array([10, 20, 30, 20])
    assert found.count_repeats(sizes, 6) == {(10, 1): 1, (10, 2): 1, (20, 2): 1}
    assert found.count_repeats(sizes, 7) == Counter(
        {(10, 1): 1, (10, 2): 1, (20, 2): 1, (20, 1): 2}
    )
    assert found.count_repeats(sizes, 2) == {}
