"""Scores without labels: the statistic by slow loops, its warnings, natural differences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import InvalidInput
from metapac.drift import Drift, Pool, Shift, compare_pools, compare_scores
from tests.helpers import oracles


def draw(rng: Any, tasks: int, examples: int, *, shift: float = 0.0, spread: float = 0.5) -> Any:
    """Return scores of tasks that differ by nature, and the tasks."""
    means = rng.normal(shift, spread, tasks)
    names = np.repeat([f"{shift} {i:03d}" for i in range(tasks)], examples)
    return np.repeat(means, examples) + rng.normal(size=tasks * examples), names


def compare(rng: Any, *, shift: float = 0.0, examples: int = 50, new: int = 20) -> Drift:
    known, sites = draw(rng, 40, 60)
    scores, tasks = draw(rng, new, examples, shift=shift)
    return compare_scores(scores, tasks, reference=known, reference_tasks=sites)


def share_won(some: Any, others: Any) -> float:
    """Return the share of pairs in which the first has the higher score, pair by pair."""
    pairs = [(x, y) for x in some.tolist() for y in others.tolist()]
    return float(np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs]))


def test_the_statistic_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    known, sites = np.round(draw(rng, 20, 7)[0], 1), np.repeat(np.arange(20), 7)  # with ties
    scores, tasks = np.round(draw(rng, 3, 5)[0], 1), np.repeat(["a", "b", "c"], 5)
    drift = compare_scores(scores, tasks, reference=known, reference_tasks=sites)
    for shift in drift.shifts:
        assert shift.higher == pytest.approx(share_won(scores[tasks == shift.task], known))
        assert shift.examples == 5
    # A calibration task is compared with all others, not with itself.
    among = []
    for site in range(20):
        among.append(share_won(known[sites == site], known[sites != site]))
    gaps = np.array(among) - np.mean(among)
    one = np.mean([(share_won(np.array([x]), known) - 0.5) ** 2 for x in known])
    between = max(0.0, (np.mean(gaps**2) - one / 7) / (1 - 1 / 7))
    usual = gaps / math.sqrt(between + (one - between) / 7)
    higher = np.array([shift.higher for shift in drift.shifts])
    found = (higher - np.mean(among)) / math.sqrt(between + (one - between) / 5)
    for shift, own in zip(drift.shifts, np.abs(found), strict=True):
        rank = (1 + np.sum(np.abs(usual) >= own)) / 21
        assert shift.p_value == pytest.approx(max(rank, 2 * stats.norm.sf(own)))
    assert drift.higher == pytest.approx(higher.mean())
    variance = (between + (one - between) / 5) / 3 + (between + (one - between) / 7) / 20
    gap = abs(higher.mean() - np.mean(among)) / math.sqrt(variance)
    by_rank = stats.mannwhitneyu(found, usual).pvalue
    assert drift.p_common == pytest.approx(max(by_rank, 2 * stats.t.sf(gap, 19)))


def test_equal_scores_counted_together_are_the_same() -> None:
    rng = np.random.default_rng(1)
    known, sites = rng.integers(5, size=600).astype(float), np.repeat(np.arange(30), 20)
    scores, tasks = rng.integers(5, size=40).astype(float), np.repeat(["a", "b"], 20)
    plain = compare_scores(scores, tasks, reference=known, reference_tasks=sites)

    def pool(values: Any, names: Any) -> Pool:
        pairs, number = np.unique(
            np.array([*zip(names, values, strict=True)], dtype=[("n", "U4"), ("v", float)]),
            return_counts=True,
        )
        return Pool.collect(pairs["n"].tolist(), pairs["v"], number.astype(np.int64))

    assert compare_pools(pool(scores, tasks), pool(known, sites)) == plain


@pytest.mark.parametrize("examples", [20, 60, 300])
def test_natural_differences_between_tasks_are_no_warning(examples: int) -> None:
    rng, runs = np.random.default_rng(2), 150
    warnings = sum(compare(rng, examples=examples).is_suspicious for _ in range(runs))
    assert warnings <= stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.03)
    # Negative control: a test that takes examples for independent objects to nearly every task.
    known, sites = draw(rng, 40, 60)
    scores, tasks = draw(rng, 20, examples)
    usual = [
        stats.ks_2samp(scores[tasks == name], known).pvalue <= 0.05 for name in np.unique(tasks)
    ]
    assert len(sites) == len(known)
    assert np.mean(usual) > 0.3


# Numbers of calibration and of new tasks, and of examples in each.
SIZES = [(60, 3, 100, 5), (19, 100, 20, 20), (60, 20, 10, 100), (60, 100, 100, 5), (19, 5, 50, 20)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["equal", "normal", "outliers", "coarse"])
def test_warnings_without_a_change(sizes: tuple[int, int, int, int], kind: str) -> None:
    known, new, examples, fewer = sizes
    rng, runs = np.random.default_rng(6), 40
    task = np.repeat(np.arange(known + new), np.repeat([examples, fewer], [known, new]))
    warnings = 0
    for _ in range(runs):
        means = rng.normal(0, 0.0 if kind == "equal" else 0.3, known + new)
        if kind in ("outliers", "coarse"):
            means += np.where(rng.random(known + new) < 0.08, 2.5, 0.0)
        scores = means[task] + rng.normal(size=len(task))
        scores = (scores > 1.5).astype(float) if kind == "coarse" else scores
        old = task < known
        parts = [
            Pool(names, task[rows] - names[0], scores[rows], np.ones(rows.sum(), np.int64))
            for names, rows in ((np.arange(known, known + new), ~old), (np.arange(known), old))
        ]
        warnings += compare_pools(*parts).is_suspicious
    assert warnings <= stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)


def test_the_simulation_notices_a_test_that_ignores_sizes() -> None:
    """Negative control: Student's test of ``higher`` warns too often without a change."""
    rng, runs = np.random.default_rng(7), 60
    wrong = 0
    for _ in range(runs):
        known = rng.random((60, 500))
        new = rng.random((3, 5))
        wrong += stats.ttest_ind(new.mean(axis=1), known.mean(axis=1)).pvalue <= 0.005
    assert wrong > stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)


@pytest.mark.parametrize(("known", "new"), [(19, 2), (39, 2), (20, 3)])
def test_the_number_of_unusual_tasks_by_enumeration(known: int, new: int) -> None:
    """All places of the new tasks among all tasks are equally probable."""
    rarest, total = (known + 1) // 20, known + new
    numbers = []
    for places in itertools.combinations(range(total), new):
        old = [place for place in range(total) if place not in places]
        numbers.append(sum(sum(o > place for o in old) < rarest for place in places))
    for number in range(new + 1):
        p_values = [0.01] * number + [0.9] * (new - number)
        shifts = tuple(Shift(str(i), 9, 0.5, p) for i, p in enumerate(p_values))
        drift = Drift(shifts, known, 1.0)
        assert drift.p_number == pytest.approx(np.mean(np.array(numbers) >= number))
    assert drift.expected == pytest.approx(np.mean(numbers))


def test_a_common_shift_is_found() -> None:
    rng = np.random.default_rng(3)
    for shift in (-1.0, 1.0):
        found = [compare(rng, shift=shift) for _ in range(20)]
        assert all(drift.is_suspicious for drift in found)
        assert all((drift.higher > 0.5) == (shift > 0) for drift in found)


def test_a_few_strange_tasks_are_found() -> None:
    rng = np.random.default_rng(4)
    known, sites = draw(rng, 40, 60)
    scores, tasks = draw(rng, 20, 60)
    scores[tasks <= "0.0 005"] *= 0
    scores[tasks <= "0.0 005"] += np.repeat([9, -9, 9, -9, 9, -9], 60)
    drift = compare_scores(scores, tasks, reference=known, reference_tasks=sites)
    assert {shift.task for shift in drift.unusual} >= {f"0.0 00{i}" for i in range(6)}
    assert drift.is_suspicious
    assert drift.p_common > 0.01
    assert drift.expected == pytest.approx(20 * 2 / 41)


def test_the_most_unusual_task_comes_first() -> None:
    drift = Drift(
        (Shift("a", 9, 0.6, 0.01), Shift("b", 9, 0.1, 0.02), Shift("c", 9, 1, 0.9)), 30, 1
    )
    assert [shift.task for shift in drift.unusual] == ["b", "a"]
    assert not Drift((Shift("a", 9, 0.5, 0.5),), 30, math.nan).is_suspicious


def test_the_highest_score_of_a_row_counts() -> None:
    rng = np.random.default_rng(5)
    known, new = rng.random((400, 3)), rng.random((40, 3))
    sites, tasks = np.repeat(np.arange(20), 20), np.repeat(["a", "b"], 20)
    wide = compare_scores(new, tasks, reference=known, reference_tasks=sites)
    flat = compare_scores(
        new.max(axis=1), tasks, reference=known.max(axis=1), reference_tasks=sites
    )
    assert wide == flat


def test_a_single_task_is_never_suspicious() -> None:
    rng = np.random.default_rng(8)
    known, sites = draw(rng, 400, 20)
    drift = compare_scores([99.0] * 50, ["a"] * 50, reference=known, reference_tasks=sites)
    assert drift.shifts[0].is_unusual
    assert math.isnan(drift.p_common)
    assert not drift.is_suspicious


def test_a_task_like_all_others_is_not_unusual() -> None:
    equal: Any = {"reference": np.ones(300), "reference_tasks": np.repeat(np.arange(30), 10)}
    [shift] = compare_scores(np.ones(10), ["a"] * 10, **equal).shifts
    assert (shift.higher, shift.p_value) == (0.5, 1.0)
    two = compare_scores(np.ones(10), ["a", "b"] * 5, **equal)
    assert (two.p_common, two.is_suspicious) == (1.0, False)
    other = compare_scores(np.zeros(10), ["a", "b"] * 5, **equal)
    assert other.is_suspicious


def test_bad_input() -> None:
    known, sites = np.arange(190.0), np.repeat(np.arange(19), 10)
    options: Any = {"reference": known, "reference_tasks": sites}
    assert len(compare_scores([1.0], ["a"], **options).shifts) == 1
    cases: list[Any] = [
        ([], [], "scores is empty"),
        ([np.nan], ["a"], "NaN"),
        ([1.0, 2.0], ["a"], "must have the same length"),
        ([1.0], [None], "missing ids"),
    ]
    for scores, tasks, message in cases:
        with pytest.raises(InvalidInput, match=message):
            compare_scores(scores, tasks, **options)
    with pytest.raises(InvalidInput, match="reference must have at least 19 tasks.* got 18"):
        compare_scores([1.0], ["a"], reference=known[:180], reference_tasks=sites[:180])
