"""Corrections of Meta-CP: against slow references, and against exact probabilities."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac._common import Counts
from metapac.fewshot import meta_cp
from metapac.fewshot.meta_cp import Split

rates = st.floats(0.01, 0.99)
deltas = st.sampled_from([0.9, 0.5, 0.1, 1e-5, 1e-12])


def kinds(sizes: list[int]) -> tuple[Counts, Counts]:
    return np.unique(sizes, return_counts=True)


def divergence(t: mpmath.mpf, p: mpmath.mpf) -> mpmath.mpf:
    second = (1 - t) * mpmath.log((1 - t) / (1 - p)) if t < 1 else mpmath.mpf(0)
    return t * mpmath.log(t / p) + second


@settings(max_examples=60)
@given(epsilon=rates, delta=deltas, tasks=st.integers(1, 2000))
def test_over_tasks_solves_hoeffdings_inequality(epsilon: float, delta: float, tasks: int) -> None:
    result, split = meta_cp.over_tasks(epsilon, delta, tasks)
    assert split == Split(delta, 0.0)
    with mpmath.workdps(40):
        covered, goal = 1 - mpmath.mpf(epsilon), -mpmath.log(delta) / tasks
        most = divergence(mpmath.mpf(1), covered)
        if result == math.inf:
            assert most < goal * (1 + mpmath.mpf(10) ** -12)
            return
        assert 0 < result < epsilon
        assert divergence(covered + result, covered) >= goal * (1 - mpmath.mpf(10) ** -9)
        less = result * (1 - mpmath.mpf(10) ** -9)
        assert divergence(covered + less, covered) < goal


def test_over_tasks_in_the_experiments_of_the_paper() -> None:
    # Hoeffding's better known bound, sqrt(log(1 / delta) / 2N), would use up all of epsilon.
    assert meta_cp.over_tasks(0.1, 1e-5, 500).amount == pytest.approx(0.0576010, abs=1e-7)
    assert meta_cp.over_tasks(0.1, 1e-5, 250).amount == pytest.approx(0.0767740, abs=1e-7)
    assert math.sqrt(math.log(1e5) / 1000) > 0.1


@settings(max_examples=25)
@given(epsilon=rates, delta=deltas, sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5))
def test_over_examples_is_the_best_division_of_the_slow_reference(
    epsilon: float, delta: float, sizes: list[int]
) -> None:
    result, split = meta_cp.over_examples(epsilon, delta, *kinds(sizes))
    tried = {}
    for twentieth in range(1, 20):
        across, within = delta * (1 - twentieth / 20), delta * twentieth / 20
        squares = [width(epsilon, within / len(sizes), n) ** 2 for n in sizes]
        tried[math.sqrt(sum(squares) * math.log(1 / across) / 2) / len(sizes)] = across, within
    assert result == pytest.approx(min(tried), rel=1e-9)
    assert split == pytest.approx(min(tried.items())[1], rel=0.2)  # flat around the best
    assert sum(split) == pytest.approx(delta)


def width(epsilon: float, level: float, n: int) -> float:
    """Return the width of the Clopper-Pearson interval, at least what the proof requires."""
    covered = n - math.floor(epsilon * n)
    low = stats.beta.ppf(level / 2, covered, n - covered + 1) if covered else 0.0
    high = stats.beta.isf(level / 2, covered + 1, n - covered) if covered < n else 1.0
    return max(float(high - low), 1 / math.sqrt(n))


@given(epsilon=rates, level=st.floats(1e-12, 0.999), n=st.integers(1, 10**6))
def test_no_interval_is_wider_than_that_of_dvoretzky_kiefer_and_wolfowitz(
    epsilon: float, level: float, n: int
) -> None:
    (result,) = meta_cp.interval_widths(epsilon, level, np.array([n]))
    assert result <= 2 * math.sqrt(math.log(2 / level) / (2 * n)) * (1 + 1e-9)


@settings(max_examples=50)
@given(epsilon=rates, delta=deltas, sizes=st.lists(st.integers(1, 500), min_size=1, max_size=8))
def test_over_examples_is_never_below_what_its_proof_needs(
    epsilon: float, delta: float, sizes: list[int]
) -> None:
    # Hoeffding's inequality on all examples, each of weight 1 / (N n_i), with all of delta.
    direct = math.sqrt(sum(1 / n for n in sizes) * math.log(1 / delta) / 2) / len(sizes)
    assert meta_cp.over_examples(epsilon, delta, *kinds(sizes)).amount >= direct


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-5])
def test_tasks_that_are_all_right_or_all_wrong_rarely_violate_the_guarantee(
    epsilon: float, delta: float
) -> None:
    # Each task covers all of its examples or none, all with probability just below 1 - epsilon.
    # The guarantee fails if enough tasks are covered: a binomial tail.
    tasks = np.unique(np.geomspace(1, 1500, 150).astype(int))
    amounts = np.array([meta_cp.over_tasks(epsilon, delta, n).amount for n in tasks])
    chance = chance_to_reach(tasks, 1 - epsilon, (tasks + 1) * (1 - epsilon + amounts))
    assert chance.max() <= delta
    assert chance.max() > delta / 40  # Hoeffding's inequality loses no more than a polynomial in N
    careless = chance_to_reach(tasks, 1 - epsilon, (tasks + 1) * (1 - epsilon))
    assert careless.max() > min(delta, 0.3)


@pytest.mark.parametrize("tasks", [5, 50, 500])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-5])
def test_examples_of_identical_tasks_rarely_violate_the_guarantee(tasks: int, delta: float) -> None:
    # Coverage (N + 1) / N (1 - epsilon) on each task is just not enough; examples are coin tosses.
    epsilon, sizes = 0.3, np.unique(np.geomspace(1, 300, 40).astype(int))
    amounts = np.array(
        [
            meta_cp.over_examples(epsilon, delta, np.array([n]), np.array([tasks])).amount
            for n in sizes
        ]
    )
    coverage = (tasks + 1) / tasks * (1 - epsilon)
    needs = sizes * (tasks + 1) * (1 - epsilon + amounts)
    assert chance_to_reach(sizes * tasks, coverage, needs).max() <= delta
    careless = chance_to_reach(sizes * tasks, coverage, sizes * (tasks + 1) * (1 - epsilon))
    assert careless.max() > min(delta, 0.3)


def chance_to_reach(n: Any, p: float, need: Any) -> Any:
    return stats.binom.sf(np.ceil(need - 1e-9) - 1, n, p)


@pytest.mark.parametrize("over", meta_cp.OVER)
def test_a_feasible_guarantee_stays_feasible_with_more_data(over: str) -> None:
    def works(epsilon: float = 0.2, delta: float = 0.01, tasks: int = 40, size: int = 30) -> bool:
        counts = np.array([size]), np.array([tasks])
        return meta_cp.find_correction(over, epsilon, delta, *counts).leaves_room(epsilon, tasks)

    grids: dict[str, Any] = {
        "epsilon": np.linspace(0.01, 0.99, 99),
        "delta": np.geomspace(1e-12, 0.9, 60),
        "tasks": range(1, 100),
    }
    for name, values in grids.items():
        result = [works(**{name: value}) for value in values]
        assert result == sorted(result)
        assert {False, True} <= set(result)
