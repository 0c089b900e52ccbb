"""The stages of the search for ranks; test_calibrate.py checks its results on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from metapac._common import ignore_progress
from metapac.columns import Columns
from metapac.tables import search as ranks
from metapac.tables import search as slivers
from metapac.tables.scores import Rows, true_scores
from metapac.tables.search import averaging_bounds, order_statistics, take_census, take_sample
from metapac.tables.sources import Source, open_source
from tests.helpers.engines import as_if_large, connection


def rows_of(scores: NDArray[Any], tasks: Any) -> Rows:
    table = pa.table({"task": tasks, "score": scores})
    source = open_source(table, connection=connection("duckdb"))
    return true_scores(source, Columns("task", "score"))


def search(scores: NDArray[Any], tasks: Any, places: list[int], worth: int = 12) -> list[str]:
    """Find ranks as in a table too large to sort, check them, and return the steps."""
    steps: list[str] = []
    rows = rows_of(scores, tasks)
    with as_if_large(worth):
        sample = take_sample(rows)
        census = take_census(rows, averaging_bounds(sample, rows.source.traits))
        wanted = np.tile(places, (len(census.names), 1))
        result, _repeats = order_statistics(
            rows, census, wanted, lambda stage, _done, _total: steps.append(stage), sample
        )
    for name, row in zip(census.names, result, strict=True):
        assert row.tolist() == np.sort(scores[tasks == name])[places].tolist()
    return steps


@pytest.fixture(scope="module")
def similar() -> NDArray[np.float64]:
    """Forty tasks of four hundred scores, which differ in location and scale."""
    rng = np.random.default_rng(0)
    location, scale = rng.normal(size=(40, 1)), np.exp(rng.normal(size=(40, 1)))
    return location + scale * rng.normal(size=(40, 400))


@pytest.mark.parametrize("order", ["as it comes", "task after task"])
def test_the_first_guess_is_right_on_similar_tasks(
    similar: NDArray[np.float64], order: str
) -> None:
    """Speed depends on this: one scan, no round of counting, nothing left to sort."""
    tasks = np.repeat(np.arange(40), 400)
    shuffle = np.random.default_rng(1).permutation(16_000)
    if order == "task after task":
        shuffle.sort()
    steps = search(similar.ravel()[shuffle], tasks[shuffle], [30, 40, 50])
    assert steps == ["searching 120 ranks where they are expected"]


def test_a_wrong_guess_narrows_the_search(
    similar: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are right for any guess: too low, too high, or none."""
    tasks = np.repeat(np.arange(40), 400)
    for wrong in ("low", "high", np.nan):
        monkeypatch.setattr(
            ranks,
            "guess",
            lambda spans, *_rest, wrong=wrong: (
                *[
                    getattr(spans, wrong)
                    if isinstance(wrong, str)
                    else np.full_like(spans.low, wrong)
                ]
                * 2,
                np.stack([spans.below, spans.below]),
            ),
        )
        steps = search(similar.ravel(), tasks, [40])
        assert steps[0] == "searching 40 ranks where they are expected"
        assert steps[-1].startswith("sorting ")


def test_without_a_shape_ranks_are_found_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "estimate_shape", lambda *_all: None)
    rng = np.random.default_rng(0)
    scores = 10 ** rng.uniform(-300, 300, 6000) * rng.choice([-1, 1], 6000)
    steps = search(scores, rng.integers(0, 6, 6000), [100, 200], worth=200)
    assert all(step.startswith("counting, with ") for step in steps[:-1])
    assert 3 <= len(steps) < 12
    assert steps[-1].startswith("sorting ")


def test_if_guesses_fail_scores_are_counted(
    similar: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "estimate_shape", lambda *_all: None)
    steps = search(similar.ravel(), np.repeat(np.arange(40), 400), [40, 80], worth=200)
    assert len(steps) > 1
    assert all(step.startswith("counting, with ") for step in steps[:-1])


def test_a_task_that_disappears_between_passes_is_noticed(
    similar: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "estimate_shape", lambda *_all: None)
    tasks = np.repeat(np.arange(40), 400)
    before, after = rows_of(similar.ravel(), tasks), rows_of(similar.ravel()[:-400], tasks[:-400])
    with as_if_large():
        census = take_census(before, (-np.inf, np.inf))
        with pytest.raises(ValueError, match="frame changed while it was being read"):
            order_statistics(after, census, np.full((40, 1), 40), ignore_progress)


def test_tied_scores_need_no_sorting() -> None:
    scores = np.repeat([0.25, 0.5], 5000)
    steps = search(scores, np.repeat(["a", "b"], 5000), [10])
    assert steps == []


def test_half_of_the_scores_infinite() -> None:
    rng = np.random.default_rng(0)
    scores = np.where(rng.random(8000) < 0.5, -np.inf, rng.normal(size=8000))
    search(scores, rng.integers(0, 4, 8000), [100, 1200])


def test_ranks_of_minus_one_are_not_searched() -> None:
    rows = rows_of(np.arange(6.0), np.repeat([0, 1], 3))
    result, repeats = order_statistics(
        rows, take_census(rows), np.array([[-1, 1], [2, -1]]), ignore_progress
    )
    assert result.tolist() == [[-np.inf, 1], [5, -np.inf]]
    assert repeats == {(3, 1): 6}
    none, repeats = order_statistics(rows, take_census(rows), np.full((2, 1), -1), ignore_progress)
    assert none.tolist() == [[-np.inf]] * 2
    assert repeats is None


@pytest.mark.parametrize("most", [None, 2500, 100], ids=["rows", "lists", "counted first"])
def test_no_more_scores_are_fetched_than_fit_in_memory(
    similar: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    """Lists hold only the scores near the ranks; if even these are many, they are counted."""
    asked: list[str] = []

    def run(self: Source, table: Any, run: Any = Source.run) -> Any:
        asked.extend(table.columns)
        return run(self, table)

    monkeypatch.setattr(Source, "run", run)
    if most is not None:
        monkeypatch.setattr(slivers, "MOST", most)
        monkeypatch.setattr(ranks, "MOST", most)
    search(similar.ravel(), np.repeat(np.arange(40), 400), [30, 40, 50])
    assert ("scores" in asked) == (most == 2500)
    assert ("cut1" in asked) == (most == 100)


def test_a_table_that_changes_while_it_is_counted_is_noticed() -> None:
    scores = np.random.default_rng(0).normal(size=4000)
    before, after = rows_of(scores, np.zeros(4000, int)), rows_of(scores[:-1], np.zeros(3999, int))
    with as_if_large(), pytest.raises(ValueError, match="frame changed while it was being read"):
        order_statistics(after, take_census(before), np.array([[100]]), ignore_progress)
