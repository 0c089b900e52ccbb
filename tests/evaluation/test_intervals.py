"""Intervals over draws and seeds: closed forms, and coverage with a negative control."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metapac.fewshot.study.summary import (
    draw_share_interval,
    error_quantile,
    mean_by_draw,
    mean_interval,
    quantile_interval,
    share_interval,
)
from metapac.verdict import clopper_pearson_interval
from tests.helpers.oracles import FALSE_ALARM
from tests.helpers.studies import method_rows


def test_one_seed_is_students_t_over_draws() -> None:
    values = np.random.default_rng(0).normal(size=9)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_interval([values]) == pytest.approx((low, high))


def test_three_seeds_are_students_t_over_seeds() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5))
    low, high = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval(0.95)
    assert mean_interval([*values]) == pytest.approx((low, high))


def test_two_seeds_pool_the_spread_of_their_draws() -> None:
    one, other = np.random.default_rng(0).normal(size=(2, 6)) + np.array([[0.0], [5.0]])
    variance = (np.var(one, ddof=1) + np.var(other, ddof=1)) / 2
    half = stats.t.ppf(0.975, 10) * np.sqrt(variance / 12)
    middle = (one.mean() + other.mean()) / 2
    assert mean_interval([one, other]) == pytest.approx((middle - half, middle + half))
    three = [one, other, other]
    variance = sum(np.var(each, ddof=1) for each in three) / 3
    half = stats.t.ppf(0.975, 15) * np.sqrt(variance / 18)
    low, high = mean_interval(three, across_seeds=False)
    assert high - low == pytest.approx(2 * half)


def test_a_single_unit_says_nothing_about_the_spread() -> None:
    assert mean_interval([np.array([2.0])]) == (-np.inf, np.inf)
    rows = method_rows([[0.0, 0.2, 0.2]])
    low, high = clopper_pearson_interval(2, 3)
    assert share_interval([rows], [rows.error > 0.1]) == (float(low), float(high))


def test_draws_are_averaged_by_their_number() -> None:
    rows = method_rows([[1, 2], [3, 5]])
    assert mean_by_draw(rows, rows.error).tolist() == [1.5, 4]
    assert mean_by_draw(rows.take(np.array([3, 0, 2])), np.array([5, 1, 3])).tolist() == [1, 4]


def test_a_share_is_never_surer_than_that_of_independent_tasks() -> None:
    rows = method_rows(np.zeros((10, 20)))
    low, high = clopper_pearson_interval(200, 200)
    assert share_interval([rows], [rows.error <= 0.1]) == (float(low), float(high))
    assert low < 0.99
    bad = [np.ones(3, dtype=bool), np.zeros(3, dtype=bool), np.ones(3, dtype=bool)]
    assert draw_share_interval(bad) == (0.0, 1.0)


def test_the_quantile_of_independent_tasks_is_bounded_by_order_statistics() -> None:
    # One draw: the interval of the share is that of Clopper and Pearson, which is monotone.
    errors = np.sort(np.random.default_rng(0).random(200))
    low, high = quantile_interval([method_rows([errors.tolist()])], 0.1)
    above = np.arange(199, -1, -1)  # tasks above each error
    limits = clopper_pearson_interval(above, np.full(200, 200))
    assert low == errors[np.argmax(limits[0] <= 0.1)]
    assert high == errors[np.argmax(limits[1] <= 0.1)]
    assert low < error_quantile(errors, 0.1) < high


def test_too_few_tasks_leave_the_quantile_open_above() -> None:
    assert quantile_interval([method_rows([[0.2, 0.3, 0.4]])], 0.1) == (0.2, 1.0)


def hierarchy(rng: np.random.Generator, seeds: int, draws: int, tasks: int) -> np.ndarray:
    """Errors around 0: seeds, draws and tasks each add as much noise."""
    of_seed = rng.normal(size=(seeds, 1, 1))
    of_draw = rng.normal(size=(seeds, draws, 1))
    return np.asarray(of_seed + of_draw + rng.normal(size=(seeds, draws, tasks)))


TRIALS = 3000
# So many intervals miss by chance with probability 1e-6 if each does with 5 %.
LIMIT = int(stats.binom.isf(FALSE_ALARM, TRIALS, 0.05))


def misses(values: np.ndarray, truth: float) -> bool:
    low, high = mean_interval([each.mean(axis=1) for each in values])
    return not low <= truth <= high


def test_intervals_over_seeds_cover_seeds_draws_and_tasks() -> None:
    rng = np.random.default_rng(1)
    assert sum(misses(hierarchy(rng, 4, 3, 5), 0.0) for _ in range(TRIALS)) <= LIMIT


def test_intervals_over_draws_cover_the_draws_of_one_learner_and_not_other_seeds() -> None:
    rng = np.random.default_rng(2)
    given, beyond = 0, 0
    for _ in range(TRIALS):
        learner = rng.normal()
        errors = learner + rng.normal(size=(1, 6, 1)) + rng.normal(size=(1, 6, 5))
        given += misses(errors, learner)
        beyond += misses(errors, 0.0)
    assert given <= LIMIT
    assert beyond > LIMIT  # the negative control: these intervals do not speak of other learners


def test_pretending_that_all_tasks_are_independent_is_caught() -> None:
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(TRIALS):
        flat = hierarchy(rng, 4, 3, 5).ravel()
        low, high = mean_interval([flat])
        wrong += not low <= 0 <= high
    assert wrong > LIMIT


def test_the_interval_of_the_quantile_covers_it() -> None:
    # Errors of a draw share a shift; the 80 % quantile of all errors is that of their mixture.
    rng = np.random.default_rng(4)
    truth = float(stats.norm.ppf(0.8, scale=np.sqrt(2)))
    trials, wrong = 600, 0
    for _ in range(trials):
        errors = rng.normal(size=(25, 1)) + rng.normal(size=(25, 8))
        low, high = quantile_interval([method_rows(errors)], 0.2)
        wrong += not low <= truth <= (high if high != 1.0 else np.inf)
    assert wrong <= int(stats.binom.isf(FALSE_ALARM, trials, 0.06))  # Student's t is approximate
