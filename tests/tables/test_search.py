"""Order statistics of a table are those of NumPy, whatever the sample suggested."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac import Columns, InvalidInput
from metapac._common import ignore_progress
from metapac.data_checks import count_repeats
from metapac.tables import search
from metapac.tables.scores import Rows, true_scores
from tests.helpers.engines import ENGINES, as_if_large, connection, put, put_with_nan
from tests.helpers.tables import open_source

EVERYTHING = (-math.inf, math.inf)
SHARES = (0, 0.01, 0.1, 0.5, 0.99)


def rows_of(table: Any) -> Rows:
    source = open_source(table, connection=connection("duckdb"))
    return true_scores(source, Columns(task="task", score="score"))


def table_of(scores: NDArray[Any], tasks: Any) -> pa.Table:
    return pa.table({"task": tasks, "score": scores})


def check(rows: Rows, frame: Any, shares: tuple[float, ...] = SHARES) -> list[str]:
    """Compare some ranks of each task with sorted arrays, and return the steps of the search."""
    steps: list[str] = []
    task, score = (np.asarray(frame[name]) for name in ("task", "score"))
    with as_if_large():
        census, sample = search.take_survey(rows)
        last = census.sizes[:, None] - 1
        ranks = np.minimum((census.sizes[:, None] * np.array(shares)).astype(np.int64), last)
        ranks[::4, 1], ranks[3::7] = -1, -1
        tell = lambda stage, _done, _total: steps.append(stage)  # noqa: E731
        found, _repeats = search.order_statistics(rows, census, sample, ranks, tell)
    for name, own, got in zip(census.names, ranks, found, strict=True):
        scores = np.sort(score[task == name])
        assert got.tolist() == [-np.inf if rank < 0 else scores[rank] for rank in own]
    return steps


def draw(kind: str, rows: int = 3000) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores that mislead a search, and their tasks."""
    rng = np.random.default_rng(0)
    task, score = rng.integers(0, 30, rows), rng.normal(size=rows)
    if kind == "one huge task":
        task[rng.random(rows) < 0.95] = 0
    score = {
        "ties": np.round(score),
        "equal": np.full(rows, 0.25),
        "infinite": np.where(rng.random(rows) < 0.5, -np.inf, np.where(task % 2, np.inf, score)),
        "magnitudes": score * 10.0 ** rng.integers(-300, 300, rows),
        "denormal": rng.integers(0, 1000, rows) * 5e-324,
        "two humps": rng.beta(0.1, 0.1, rows),
        "single precision": score.astype(np.float32),
    }.get(kind, score)
    order = np.lexsort([score, task]) if kind == "sorted" else np.arange(rows)
    return task[order], score[order]


KINDS = ("ties", "equal", "infinite", "magnitudes", "denormal", "two humps", "single precision",
         "sorted", "one huge task")  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [search.MOST, 40])
def test_misleading_scores(kind: str, most: int, engine: str) -> None:
    if engine == "spark" and (most != 40 or kind not in ("ties", "one huge task")):
        pytest.skip("takes long, and differs from others only in its SQL")
    task, score = draw(kind)
    frame = pd.DataFrame({"task": [f"t{i:02}" for i in task], "score": score})
    with mock.patch.object(search, "MOST", most):  # beyond it, batches, lists and engines sort
        check(rows_of(put(engine, frame)), frame)


def test_the_guess_is_right_on_similar_tasks() -> None:
    """Speed depends on this: one scan, and nothing left to sort."""
    rng = np.random.default_rng(0)
    location, scale = rng.normal(size=(40, 1)), np.exp(rng.normal(size=(40, 1)))
    scores = (location + scale * rng.normal(size=(40, 400))).ravel()
    task = np.repeat(np.arange(40), 400)
    for order in (np.arange(16_000), rng.permutation(16_000)):
        table = table_of(scores[order], task[order])
        steps = check(rows_of(table), table, shares=(0.075, 0.1, 0.125))
        # Of six tasks, no rank is asked.
        assert steps == ["searching 34 tasks where ranks are expected", "sorting 0 scores"]


@pytest.mark.parametrize("wrong", ["low", "high", "nothing", "one too few"])
def test_a_wrong_guess_costs_time_only(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, score = draw("plain")
    guess = search.guess

    def mislead(rows: Rows, census: search.Census, *rest: Any) -> Any:
        floor, _ceiling, share = guess(rows, census, *rest)
        ends = {
            "low": (census.low, census.low),
            "high": (census.high, census.high),
            "nothing": (census.low * np.nan, census.low),
            "one too few": (floor, np.nextafter(floor, np.inf)),
        }[wrong]
        return *ends, share

    monkeypatch.setattr(search, "guess", mislead)
    table = table_of(score, task)
    steps = check(rows_of(table), table)
    assert steps[-1] != "sorting 0 scores"


@pytest.mark.parametrize("most", [search.MOST, 40])
@pytest.mark.parametrize("lost", [1, 100])
@pytest.mark.parametrize("large", [True, False])
def test_a_table_that_changes_is_noticed(most: int, lost: int, large: bool) -> None:
    score = np.random.default_rng(0).normal(size=4000)
    task = np.repeat(np.arange(40), 100)
    before, after = rows_of(table_of(score, task)), rows_of(table_of(score[:-lost], task[:-lost]))
    ranks = np.full((40, 1), 99)
    with as_if_large(), mock.patch.object(search, "MOST", most):
        sample = search.take_sample(before)
        census = search.take_census(before, EVERYTHING if large else None)
        with pytest.raises(InvalidInput, match="changed"):
            search.order_statistics(after, census, sample, ranks, ignore_progress)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-0.0, 0.0, 1.0])), min_size=1))
def test_repeats_are_those_of_arrays(pairs: list[tuple[int, float]]) -> None:
    task, score = (np.array(column) for column in zip(*pairs, strict=True))
    rows = rows_of(table_of(score, task))
    census, found = search.take_survey(rows)
    ranks = (census.sizes - 1)[:, None]
    _scores, repeats = search.order_statistics(rows, census, found, ranks, ignore_progress)
    assert repeats == count_repeats(task, score)


def test_repeats_are_counted_in_whole_tasks_and_by_their_size() -> None:
    sizes = np.array([3, 2, 0, 2])
    scores = np.array([1.0, 1, 2, 2, 2, 2, 3])
    found = search.Slivers(sizes, sizes, np.cumsum(sizes) - sizes, scores)
    examples = np.array([10, 20, 30, 20])
    some = Counter({(10, 1): 1, (10, 2): 1, (20, 2): 1})
    assert found.count_repeats(examples, 6) == some
    assert found.count_repeats(examples, 7) == some | Counter({(20, 1): 2})
    assert found.count_repeats(examples, 2) == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bounds", [None, EVERYTHING, (0.0, 2.0)])
def test_nulls_and_nan_are_counted_with_their_tasks(engine: str, bounds: Any) -> None:
    if bounds == EVERYTHING and engine in ("postgres", "sqlite"):
        pytest.skip("such bounds are for engines in which squares overflow to infinity")
    score = [math.nan, 1.0, None, None, math.nan, 1.0]
    table = put_with_nan(engine, ["a", "a", "b", "c", "d", "d"], score)
    with pytest.raises(InvalidInput, match=r"4 .* out of 6 .*'a': 1, 'b': 1, 'c': 1, 'd': 1\)"):
        search.take_census(rows_of(table), bounds)
