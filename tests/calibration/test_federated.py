"""What sites send, and what is calibrated on it: the result is that of all scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from metapac import InvalidInput, MetaPS
from tests.helpers.calibrations import (
    GUARANTEE,
    SPLITS,
    Examples,
    assert_same,
    draw_tasks,
    examples_of_tasks,
    paper,
    tied,
)


def one() -> MetaPS:
    """With one number for each task."""
    return paper(split="tight")


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS))
def test_combining_what_sites_send_equals_calibrating_on_all_scores(
    examples: Examples, split: str | float
) -> None:
    method = MetaPS(**GUARANTEE, split=split, on_infeasible="trivial")
    by_task: dict[int, list[float]] = {}
    for task, score in examples:
        by_task.setdefault(task, []).append(score)
    sent = {task: method.task_threshold(scores) for task, scores in by_task.items()}
    sizes = [len(scores) for scores in by_task.values()]
    whole = clone(method).calibrate([s for _, s in examples], [t for t, _ in examples])
    assert_same(clone(method).combine(sent, sizes=sizes), whole)
    by_name = {task: len(scores) for task, scores in reversed(by_task.items())}
    assert_same(clone(method).combine(sent, sizes=by_name), whole)
    assert clone(method).combine(sent).threshold_ == whole.threshold_


@tied
def test_the_size_of_a_site_is_unknown_if_it_did_not_send_it() -> None:
    scores, tasks = draw_tasks()
    method = paper(split="tight")
    sent = {i: method.task_threshold(scores[tasks == i]) for i in range(130)}
    assert set(method.combine(sent).task_sizes_) == {-1}
    assert set(method.combine(sent, sizes=[40] * 130).task_sizes_) == {40}


def test_a_site_sends_its_precision() -> None:
    narrow = np.full(50, 0.1, dtype=np.float32)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split="tight")
    sent = {i: method.task_threshold(narrow) for i in range(20)}
    assert sent[0].dtype == np.float32
    assert method.combine(sent).predict_set([0.1]).all()
    joint = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2)
    assert joint.task_threshold(narrow).shape == (13,)
    assert joint.combine([joint.task_threshold(narrow)] * 30).precision_ == np.float32


@tied
@pytest.mark.parametrize("split", ["tight", "joint"])
@pytest.mark.parametrize("coarse", [np.float16, np.float32])
@pytest.mark.parametrize("as_mapping", [True, False])
def test_the_coarser_of_two_precisions_is_used(split: str, coarse: type, as_mapping: bool) -> None:
    # A regression: with one site of 36 in float64, 0.1 was no longer kept.
    method = MetaPS(epsilon=0.3, alpha=0.3, delta=0.1, split=split)
    sent = {i: method.task_threshold(np.full(30, coarse(0.1))) for i in range(35)}
    sent[99] = method.task_threshold(np.full(30, 0.9))
    result = method.combine(sent if as_mapping else list(sent.values()))
    assert result.precision_ == coarse
    assert result.predict_set(np.array([0.1])).all()
    assert method.combine(np.stack(list(sent.values()))).precision_ == np.float64


def test_sites_with_names_alike_are_refused() -> None:
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.2, split="tight")
    sent = {"ohio": 0.5, "Ohio": 0.5} | {f"site {i}": 0.5 for i in range(12)}
    with pytest.raises(InvalidInput, match="names of sites differ only in .*: 'ohio' and 'Ohio'"):
        method.combine(sent)
    assert len(method.combine(sent, allow=["task-names"]).tasks_) == 14


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: one().combine([0.1, math.nan]),
            r"task_thresholds holds 1 NaN out of 2 values \(first in task number 1\)",
        ),
        (
            lambda: paper().combine([0.1, 0.2]),
            r"task_thresholds must hold 13 values for each task, got shape \(2,\). Send what",
        ),
        (lambda: one().combine([]), "task_thresholds must hold 1 value for each task, got sh"),
        (
            lambda: one().combine([0.1, 0.2], ["ohio", "ohio"]),
            "tasks holds 'ohio' more than once, and a task counts only once",
        ),
        (lambda: one().combine([0.1, 0.2], ["a"]), "task_thresholds and tasks must have the sam"),
        (lambda: one().combine([0.1], sizes=[1, 2]), r"sizes and tasks must have the same shape"),
        (
            lambda: one().combine([0.1], sizes=5),
            r"sizes and tasks must have the same shape, got \(",
        ),
        (lambda: one().combine([0.1], [["a"]]), "tasks must hold hashable ids"),
        (
            lambda: one().combine({"a": 0.1}, ["a"]),
            "tasks must not be passed when task_thresholds",
        ),
        (
            lambda: one().combine({"a": 0.5}, sizes=[1]),
            "task_thresholds holds 0.5 for task 'a', whose 1 examples are too few to certify any.",
        ),
        (
            lambda: one().combine({"a": 0.1, "b": 0.2}, sizes={"a": 5, "c": 5}),
            "sizes must have the same tasks as task_thresholds, but only one has 'b'.",
        ),
        (
            lambda: one().combine({"a": 0.1}, sizes={"a": 5, "c": 5}),
            "sizes must have the same tasks as task_thresholds, but only one has 'c'.",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
