"""Closed forms of the synthetic families against counting."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import Guarantee, MetaPS
from metapac.evidence import ranks_within
from metapac.fewshot.synthetic import Family, NormalFamily
from tests.helpers.oracles import FALSE_ALARM, TiedFamily, TwoPointFamily, draw_examples

HARD = TwoPointFamily(0.3, 0.2)
FAMILIES: list[tuple[Family, float]] = [
    (NormalFamily(), 2.0),
    (TiedFamily(), 0.6),
    (TiedFamily(), 0.55),
    *((HARD, cut) for cut in (0.0, 0.5, 2.0)),
]


def agrees(count: int, draws: int, probability: float) -> bool:
    return bool(stats.binomtest(count, draws, probability).pvalue >= FALSE_ALARM)


def test_errors_and_violations_are_those_that_are_counted() -> None:
    for family, cut in FAMILIES:
        tasks = family.draw_tasks(5, rng=1)
        np.testing.assert_array_equal(tasks, family.draw_tasks(5, rng=1))
        scores = family.draw_scores(tasks, 100_000, rng=2)
        np.testing.assert_array_equal(scores, family.draw_scores(tasks, 100_000, rng=2))
        for row, error in zip(scores, family.error(tasks, cut), strict=True):
            assert agrees(int((row < cut).sum()), len(row), float(error))
        errors = family.error(family.draw_tasks(100_000, rng=3), cut)
        for epsilon in (0.05, 0.15, 0.3):
            rate = family.violation_rate(cut, epsilon)
            assert agrees(int((errors > epsilon).sum()), 100_000, rate)
    with pytest.raises(AssertionError):  # the count can see a rate that is a little wrong
        assert agrees(int((errors > 0.15).sum()), 100_000, 0.99)


def test_the_expected_size_is_that_of_drawn_sets() -> None:
    family, task, cut = NormalFamily(classes=4), 2.5, 1.0
    scores, labels = draw_examples(family, task, 200_000, rng=4)
    true = scores[np.arange(len(labels)), labels]
    assert agrees(int((true < cut).sum()), len(labels), float(family.error(np.array(task), cut)))
    sizes = (scores >= cut).sum(axis=1)
    error = sizes.std() / np.sqrt(len(sizes))
    gap = abs(sizes.mean() - float(family.size(np.array(task), cut)))
    assert gap < stats.norm.isf(FALSE_ALARM / 2) * error


@pytest.mark.filterwarnings("ignore:The threshold is 0.0")
@pytest.mark.parametrize("split", ["joint", "tight", 0.5])
def test_the_probability_of_one_by_running_every_possible_calibration(split: Any) -> None:
    # 3 tasks of 6 examples: a task is good, or bad with 0 to 6 misses. Each of the 8 ** 3 data
    # sets is calibrated on by MetaPS itself.
    family, tasks, examples = TwoPointFamily(bad=0.6, miss=0.4), 3, 6
    names = np.repeat(np.arange(tasks), examples)
    kinds = [(0, 1 - family.bad)]
    for misses in range(examples + 1):
        kinds.append((misses, family.bad * stats.binom.pmf(misses, examples, family.miss)))
    for delta in (0.6, 0.35, None):
        levels: dict[str, Any] = {"epsilon": 0.4, "alpha": 0.6, "delta": delta, "split": split}
        method = MetaPS(**levels, on_infeasible="trivial")
        probability = 0.0
        for data in product(kinds, repeat=tasks):
            scores = np.concatenate([np.arange(examples) >= misses for misses, _ in data])
            found = method.calibrate(scores.astype(float), names, allow=("levels",)).threshold_
            probability += float(found == 1) * math.prod(float(p) for _, p in data)
        g = Guarantee(**levels)
        one = family.probability_of_one(g, tasks=tasks, examples=examples)
        assert one == pytest.approx(probability)
        within, ranks = ranks_within(np.array([examples]), g)[0], g.allowed_low_thresholds(tasks)
        used = {int(k) for k, rank in zip(within, ranks, strict=True) if min(k, rank) >= 0}
        assert len(used) == (2 if split == "joint" else 1)
