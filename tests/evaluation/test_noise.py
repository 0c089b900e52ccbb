"""What few tasks and few examples do to an evaluation: against definitions, and by simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac.fewshot.study.summary import (
    allowed_tasks,
    error_quantile,
    expect_draws_within,
    explained_by_noise,
    flag_tasks,
)
from tests.helpers.oracles import FALSE_ALARM, binomial_cdf
from tests.helpers.studies import method_rows

alphas = st.floats(0.001, 0.999) | st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.9, 1 / 3])


@given(st.integers(1, 400), alphas)
def test_as_many_tasks_are_allowed_as_the_share_says(tasks: int, alpha: float) -> None:
    allowed = allowed_tasks(tasks, alpha)
    assert allowed / tasks <= alpha
    assert (allowed + 1) / tasks > alpha


def test_shares_that_differ_in_the_last_bit_are_told_apart() -> None:
    for tasks in range(1, 80):
        for above in range(1, tasks):
            share = above / tasks
            assert allowed_tasks(tasks, share) == above
            assert allowed_tasks(tasks, math.nextafter(share, 0)) == above - 1
            assert allowed_tasks(tasks, math.nextafter(share, 1)) == above


@given(st.lists(st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5]), min_size=1, max_size=40), alphas)
def test_the_quantile_and_the_share_within_agree(errors: list[float], alpha: float) -> None:
    quantile = error_quantile(np.array(errors), alpha)
    for epsilon in (0.0, 0.04, 0.05, 0.1, 0.3, 0.5):
        within = np.mean(np.array(errors) > epsilon) <= alpha
        assert (quantile <= epsilon) == within


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.integers(1, 99))
def test_the_quantile_is_numpys_inverse_of_the_distribution_function(
    errors: list[int], percent: int
) -> None:
    # Fractions: the share 1 - alpha has no exact double, and NumPy's would fall on either side.
    values, need = sorted(errors), len(errors) * (1 - Fraction(percent, 100))
    smallest = next(v for v in values if sum(e <= v for e in values) >= need)
    alpha = percent / 100
    if Fraction(alpha) >= Fraction(percent, 100) or (len(errors) * percent) % 100:
        assert error_quantile(np.array(errors), alpha) == smallest


def test_nine_good_tasks_of_ten_are_enough_for_the_quantile() -> None:
    # Interpolation would give 0.1, above epsilon = 0.05, though nine tenths are within.
    assert error_quantile(np.array([0.0] * 9 + [1.0]), 0.1) == 0


@pytest.mark.parametrize("examples", [1, 20, 150])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_a_task_is_flagged_when_so_many_misses_are_improbable(
    examples: int, epsilon: float
) -> None:
    missed = np.arange(examples + 1)
    rows = method_rows([(missed / examples).tolist()], examples=examples)
    flagged = flag_tasks(rows, epsilon)
    for k in missed.tolist():
        tail = 1 - binomial_cdf(k - 1, examples, epsilon) if k else 1
        assert flagged[k] == (tail < Fraction("0.05")), (k, float(tail))


def test_an_exact_error_needs_no_limit() -> None:
    rows = method_rows([[0.1, np.nextafter(0.1, 1), 0.3]])
    assert flag_tasks(rows, 0.1).tolist() == [False, True, True]
    assert explained_by_noise(rows, 0.2) == 0.2
    assert explained_by_noise(method_rows([[0.1]], examples=9), 0.2) == pytest.approx(0.24)


def simulate(rng: np.random.Generator, draws: int, tasks: int, spread: float) -> np.ndarray:
    """Observed errors on 60 examples; ``spread`` moves the thresholds of whole draws."""
    quality = rng.normal(scale=spread, size=(draws, 1))
    rates = stats.norm.cdf(-1.6 + quality + 0.3 * rng.normal(size=(draws, tasks)))
    return np.asarray(rng.binomial(60, rates) / 60)


def test_the_share_of_draws_within_is_what_chance_makes_it() -> None:
    rng = np.random.default_rng(0)
    errors = simulate(rng, draws=20_000, tasks=30, spread=0.0)
    rows = method_rows(errors, examples=60)
    expected = expect_draws_within(rows, 0.1, 0.1)
    observed = float(np.mean(np.mean(errors > 0.1, axis=1) <= 0.1))
    # Hoeffding for the draws, and for the share that the expectation is computed from, whose
    # derivative is below 30.
    slack = np.sqrt(np.log(4 / FALSE_ALARM) / (2 * 20_000))
    assert 0.05 < expected < 0.95
    assert abs(observed - expected) < slack + 30 * np.sqrt(np.log(4 / FALSE_ALARM) / 1_200_000)


def test_thresholds_of_different_quality_are_not_chance() -> None:
    errors = simulate(np.random.default_rng(0), draws=2_000, tasks=30, spread=0.5)
    rows = method_rows(errors, examples=60)
    observed = float(np.mean(np.mean(errors > 0.1, axis=1) <= 0.1))
    assert abs(observed - expect_draws_within(rows, 0.1, 0.1)) > 0.1


def test_the_expectation_of_equal_draws_is_a_binomial_probability() -> None:
    errors = [[0.0] * 46 + [0.3] * 4, [0.0] * 47 + [0.3] * 3]
    share = Fraction(7, 100)
    expected = float(binomial_cdf(5, 50, float(share)))
    assert expect_draws_within(method_rows(errors), 0.1, 0.1) == pytest.approx(expected)
