"""New tasks and draws: errors and sizes are exact counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.study.draws import Draw, ScoredTask
from tests.helpers.studies import scored_task

coarse = st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0])


@st.composite
def small_tasks(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    n, classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    table = [[draw(coarse) for _ in range(classes)] for _ in range(n)]
    return table, [draw(st.integers(0, classes - 1)) for _ in range(n)]


@given(small_tasks(), st.lists(coarse | st.floats(-2, 2), min_size=1, max_size=5))
def test_error_and_size_are_counts(
    task: tuple[list[list[float]], list[int]], cuts: list[float]
) -> None:
    table, labels = task
    result = scored_task(table, labels)
    for cut, error, size in zip(cuts, result.error(cuts), result.size(cuts), strict=True):
        misses = sum(row[label] < cut for row, label in zip(table, labels, strict=True))
        assert error == misses / len(table)
        assert size == sum(score >= cut for row in table for score in row) / len(table)


@given(small_tasks(), st.sampled_from([0.05, 0.1, 1 / 3, 0.5, 0.6, 2 / 3, 0.9]))
def test_no_larger_threshold_would_do(
    task: tuple[list[list[float]], list[int]], epsilon: float
) -> None:
    result = scored_task(*task)
    best = result.largest_threshold(epsilon)
    assert result.error([best])[0] <= epsilon
    for larger in [
        *result.true_scores[result.true_scores > best],
        best + 0.01 if best > -np.inf else -2.0,
    ]:
        assert result.error([larger])[0] > epsilon


def test_a_threshold_is_compared_in_the_precision_of_the_task() -> None:
    task = scored_task(np.array([[0.7, 0.1]], dtype=np.float32), [0])
    assert np.float64(np.float32(0.7)) < 0.7
    assert task.error([0.7])[0] == 0
    assert task.size([0.7])[0] == 1
    assert task.error([np.nextafter(np.float32(0.7), 1)])[0] == 1
    half = scored_task(np.array([[0.5]], dtype=np.float16), [0])
    assert half.error([1e9, -1e9]).tolist() == [1, 0]


def test_labelled_examples_are_not_test_examples() -> None:
    task = ScoredTask.from_predictions(
        [[1, 2], [3, 4], [5, 6]], [0, 1, 0], labelled=np.array([True, False, False])
    )
    assert task.labelled_scores.tolist() == [1]
    assert task.true_scores.tolist() == [4, 5]
    assert task.scores.tolist() == [[3, 4], [5, 6]]
    assert task.quantile is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labelled_scores": []}, "labelled_scores is empty; pass at least one labelled example"),
        ({"labelled_scores": [np.nan]}, "labelled_scores holds 1 NaN out of 1 values"),
        (
            {"true_scores": [0.5]},
            "must have a row for each of the 1 test examples and a column",
        ),
        ({"scores": [1.0, 2.0]}, r"a column for each label, got shape \(2,\)."),
        ({"true_scores": [0.1, 0.9]}, "true_scores must hold one of the scores of the same row of"),
        (
            {"quantile": np.inf},
            "quantile must be a finite number or None, got inf. Pass the",
        ),
    ],
)
def test_inconsistent_scores_are_refused(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "labelled_scores": [0.5],
        "true_scores": [0.5, 0.5],
        "scores": [[0.5, 0.1], [0.2, 0.5]],
    }
    with pytest.raises(ValueError, match=message):
        ScoredTask(**(good | changes))


def test_a_draw_needs_tasks_and_all_quantiles_or_none() -> None:
    task = scored_task([[0.5]], [0])
    with pytest.raises(ValueError, match="tests is empty; a draw needs at least one new task"):
        Draw(np.ones(2), np.arange(2), [])
    with pytest.raises(ValueError, match="but test task 1 has none. Predict them for all tasks"):
        Draw(np.ones(2), np.arange(2), [replace(task, quantile=0.5), task], np.ones(2))
