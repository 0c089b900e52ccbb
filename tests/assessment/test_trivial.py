"""Guarantees that hold trivially: the verdict says that there is nothing to check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import PS, Context, MetaPS, evaluate, residual_scores

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}
CONTEXT = Context(unit="hospital", example="patient")
RNG = np.random.default_rng(0)
TASKS, SCORES = np.repeat(["a", "b", "c"], 40), RNG.random(120)
NEW = np.repeat([f"n{i}" for i in range(5)], 40)


def calibrate(*arrays: Any, **options: Any) -> MetaPS:
    method = MetaPS(**LEVELS, on_infeasible="trivial", **options)
    return method.calibrate(*arrays, context=CONTEXT)


@pytest.mark.parametrize("tasks", [5, 60])  # too few to tell, and enough
def test_where_every_label_is_kept_nothing_is_checked(tasks: int) -> None:
    new = np.repeat([f"n{i}" for i in range(tasks)], 40)
    verdict = evaluate(calibrate(SCORES, TASKS), RNG.random(len(new)), new).verdict
    assert verdict is not None
    assert verdict.sentence() == (
        "Nothing to check: every label is kept, so none is missed. Calibrate on 8 more hospitals "
        "with at least 21 patients each."
    )


def test_where_every_interval_is_infinite_nothing_is_checked() -> None:
    method = MetaPS(**LEVELS, on_infeasible="trivial")
    method.calibrate_intervals(SCORES, np.zeros(120), TASKS)
    verdict = evaluate(method, residual_scores(RNG.random(200), np.zeros(200)), NEW).verdict
    text = str(verdict)
    assert text.startswith("Nothing to check: every interval is infinite, so no number is missed.")
    assert text.endswith("Calibrate on 8 more tasks with at least 21 examples each.")


def test_enough_tasks_are_checked() -> None:
    tasks = np.repeat(np.arange(40), 50).astype(str)
    method = MetaPS(**LEVELS).calibrate(RNG.random(2000), tasks)
    verdict = evaluate(method, RNG.random(200), NEW).verdict
    assert verdict is not None
    assert verdict.trivial == ""
    assert "Nothing to check" not in verdict.sentence()


def test_scores_without_a_lower_end_need_no_more_tasks() -> None:
    tasks = np.repeat(np.arange(40), 50).astype(str)
    method = MetaPS(**LEVELS)
    with pytest.warns(UserWarning, match="Every label is kept"):
        method.calibrate(np.full(2000, -np.inf), tasks, allow=["duplicates"])
    verdict = evaluate(method, RNG.random(200), NEW).verdict
    assert str(verdict) == "Nothing to check: every label is kept, so none is missed."


def test_one_class_may_be_trivial() -> None:
    tasks = np.repeat([f"t{i}" for i in range(60)], 60)
    labels = np.where(np.arange(3600) % 60 < 3, "yes", "no")
    method = calibrate(RNG.random(3600), tasks, labels, per_class=True)
    new = np.repeat([f"n{i}" for i in range(5)], 60)
    verdict = evaluate(method, RNG.random(300), new, labels[:300]).verdict
    assert verdict is not None
    assert verdict.by_class is not None
    assert verdict.trivial == ""
    assert verdict.by_class["no"].trivial == ""
    assert verdict.by_class["yes"].trivial.startswith("it is always kept, so it is never missed. C")
    few = calibrate(RNG.random(120), tasks[:120], labels[:120], per_class=True)
    both = evaluate(few, RNG.random(300), new, labels[:300]).verdict
    assert str(both) == (
        "Nothing to check: every label is kept, so none is missed. Calibrate on more hospitals."
    )


def test_examples_may_be_too_few() -> None:
    method = PS(epsilon=0.1, delta=0.1, on_infeasible="trivial").calibrate([0.5, 0.9])
    verdict = evaluate(method, RNG.random(200), NEW).verdict
    assert str(verdict).endswith("so none is missed. Calibrate on at least 22 examples.")
