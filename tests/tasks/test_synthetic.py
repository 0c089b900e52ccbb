"""Closed forms of the synthetic families against counting."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from metapac import Guarantee, MetaPS
from metapac.evidence import ranks_within
from metapac.fewshot.synthetic import Family, NormalFamily, TiedFamily, TwoPointFamily
from tests.helpers.oracles import FALSE_ALARM

FAMILIES: list[tuple[Family, float]] = [
    (NormalFamily(), 2.0),
    (TiedFamily(), 0.6),
    (TiedFamily(), 0.55),
    (TwoPointFamily(0.3, 0.2), 0.5),
    (TwoPointFamily(0.3, 0.2), 0.0),
    (TwoPointFamily(0.3, 0.2), 2.0),
]


def agrees(count: int, draws: int, probability: float) -> bool:
    return bool(stats.binomtest(count, draws, probability).pvalue >= FALSE_ALARM)


@pytest.mark.parametrize(("family", "cut"), FAMILIES)
def test_error_is_the_probability_of_a_score_below_the_threshold(
    family: Family, cut: float
) -> None:
    tasks = family.draw_tasks(5, rng=1)
    scores = family.draw_scores(tasks, 100_000, rng=2)
    for row, error in zip(scores, family.error(tasks, cut), strict=True):
        assert agrees(int((row < cut).sum()), len(row), float(error))


@pytest.mark.parametrize(("family", "cut"), FAMILIES)
@pytest.mark.parametrize("epsilon", [0.05, 0.15, 0.3])
def test_violation_rate_is_the_fraction_of_tasks_above_epsilon(
    family: Family, cut: float, epsilon: float
) -> None:
    errors = family.error(family.draw_tasks(100_000, rng=3), cut)
    assert agrees(int((errors > epsilon).sum()), 100_000, family.violation_rate(cut, epsilon))


def test_the_expected_size_is_that_of_drawn_sets() -> None:
    family, task, cut = NormalFamily(classes=4), 2.5, 1.0
    scores, labels = family.draw_examples(task, 200_000, rng=4)
    true = scores[np.arange(len(labels)), labels]
    assert agrees(int((true < cut).sum()), len(labels), float(family.error(np.array(task), cut)))
    sizes = (scores >= cut).sum(axis=1)
    expected = float(family.size(np.array(task), cut))
    error = sizes.std() / np.sqrt(len(sizes))
    assert abs(sizes.mean() - expected) < stats.norm.isf(FALSE_ALARM / 2) * error


def test_a_grid_value_is_not_below_itself() -> None:
    family = TiedFamily(levels=10)
    for j in range(11):
        expected = stats.binom.cdf(j - 1, 10, 0.8)
        assert family.error(np.array(0.8), j / 10) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_draw() -> None:
    for family, _ in FAMILIES:
        tasks = family.draw_tasks(4, rng=5)
        np.testing.assert_array_equal(tasks, family.draw_tasks(4, rng=5))
        np.testing.assert_array_equal(
            family.draw_scores(tasks, 6, rng=7), family.draw_scores(tasks, 6, rng=7)
        )


@pytest.mark.filterwarnings("ignore:The threshold is 0.0")
@pytest.mark.parametrize("split", ["joint", "tight", 0.5])
@pytest.mark.parametrize("delta", [0.6, 0.35, None])
def test_the_probability_of_one_by_running_every_possible_calibration(
    split: str | float, delta: float | None
) -> None:
    # 3 tasks of 6 examples: a task is good, or bad with 0 to 6 misses. Each of the 8 ** 3 data
    # sets is calibrated on by MetaPS itself.
    family, tasks, examples = TwoPointFamily(bad=0.6, miss=0.4), 3, 6
    guarantee = {"epsilon": 0.4, "alpha": 0.6, "delta": delta, "split": split}
    method = MetaPS(**guarantee, on_infeasible="trivial")  # type: ignore[arg-type]
    names = np.repeat(np.arange(tasks), examples)
    kinds = [(0, 1 - family.bad)]
    for misses in range(examples + 1):
        kinds.append((misses, family.bad * stats.binom.pmf(misses, examples, family.miss)))
    probability = 0.0
    for data in product(kinds, repeat=tasks):
        scores = [np.arange(examples) >= misses for misses, _ in data]
        array = np.concatenate(scores).astype(float)
        threshold = method.calibrate(array, names, allow=("levels",)).threshold_
        probability += float(threshold == 1) * math.prod(float(p) for _, p in data)
    g = Guarantee(**guarantee)  # type: ignore[arg-type]
    assert family.probability_of_one(g, tasks=tasks, examples=examples) == pytest.approx(
        probability
    )
    within = ranks_within(np.array([examples]), g)[0]
    used = {
        int(k)
        for k, rank in zip(within, g.allowed_low_thresholds(tasks), strict=True)
        if min(k, rank) >= 0
    }
    assert len(used) == (2 if split == "joint" and delta else 1)
