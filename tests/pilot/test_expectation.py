"""What to expect from calibration: against the mean of an order statistic, and against plan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, plan
from metapac.exploration import expected_thresholds, least_tasks


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.integers(10, 80))
def test_leaving_a_task_out_is_computing_without_it(values: list[int], tasks: int) -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    own = np.array(values, dtype=float)[:, None]
    _best, without = expected_thresholds(own, guarantee, tasks)
    for i in range(len(own) if len(own) > 2 else 0):
        alone, _ = expected_thresholds(np.delete(own, i, axis=0), guarantee, tasks)
        assert without[i] == alone


@pytest.mark.parametrize("tasks", [20, 25, 40, 90, 333])
def test_the_threshold_expected_is_the_mean_of_the_order_statistic(tasks: int) -> None:
    # Task thresholds uniform on (0, 1): the (k+1)-th lowest of N is Beta(k+1, N-k).
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    (k,) = guarantee.allowed_low_thresholds(tasks)
    expected = stats.beta.mean(k + 1, tasks - k)
    for steps in (7, 10, 30, 100):
        pilot = np.arange(1, steps)[:, None] / steps
        nearest = max(round(expected * steps), 1) / steps
        assert expected_thresholds(pilot, guarantee, tasks)[0] == nearest


def test_as_many_calibration_tasks_give_the_threshold_of_calibration() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1)
    levels = np.random.default_rng(0).random((50, len(guarantee.levels)))
    ranks = guarantee.allowed_low_thresholds(50)
    expected = max(np.sort(levels[:, j])[k] for j, k in enumerate(ranks) if k >= 0)
    assert expected_thresholds(levels, guarantee, 50)[0] == expected
    assert expected_thresholds(levels, guarantee, 2)[0] == -math.inf  # nothing is supported


@pytest.mark.parametrize("delta", [0.05, None])
def test_least_tasks_are_those_of_plan(delta: float | None) -> None:
    assert least_tasks(0.1, delta) == plan(epsilon=0.1, alpha=0.1, delta=delta).tasks
    at_half = plan(epsilon=0.1, alpha=0.1, delta=delta, split=0.05).tasks
    assert least_tasks(0.1, delta, split=0.05) == at_half


def test_each_class_needs_its_share_of_delta() -> None:
    assert least_tasks(0.1, 0.05, classes=5) == least_tasks(0.1, 0.01)
