"""Guarantees by simulation, on families of tasks with known error rates and negative controls.

Each test has a false-alarm rate of one in a million seeds; the controls show that the simulation
catches a method whose guarantee does not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from metapac import PS, Guarantee, MetaPS, allowed_errors
from metapac._common import Array
from metapac.fewshot.synthetic import Family, NormalFamily, TiedFamily, TwoPointFamily
from metapac.ranks import Level
from tests.helpers.oracles import FALSE_ALARM, too_many

EPSILON, ALPHA, DELTA = 0.2, 0.2, 0.1
TASKS, EXAMPLES, DRAWS = 60, 40, 1000


def count_violations(
    family: Family,
    calibrate: Callable[[Array], float],
    *,
    tasks: int = TASKS,
    examples: int = EXAMPLES,
    draws: int = DRAWS,
    rng: int,
) -> int:
    """Return in how many draws sets miss too often on more than alpha of tasks."""
    violations = 0
    for seed in np.random.SeedSequence(rng).spawn(draws):
        generator = np.random.default_rng(seed)
        scores = family.draw_scores(family.draw_tasks(tasks, generator), examples, generator)
        violations += family.violation_rate(calibrate(scores.ravel()), EPSILON) > ALPHA
    return violations


def meta_ps(
    split: str | float, *, tasks: int = TASKS, examples: int = EXAMPLES
) -> Callable[[Array], float]:
    method = MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, split=split)
    names = np.repeat(np.arange(tasks), examples)
    return lambda scores: method.calibrate(scores, names).threshold_


@pytest.mark.parametrize("split", ["even", "tight", 0.3, "joint"])
@pytest.mark.parametrize(
    "family",
    [NormalFamily(spread=0.5), NormalFamily(spread=0.05), TiedFamily()],
    ids=["spread out", "nearly equal", "tied"],
)
def test_meta_ps_satisfies_its_guarantee(family: Family, split: str | float) -> None:
    assert not too_many(count_violations(family, meta_ps(split), rng=0), DRAWS, DELTA)


def test_pooling_is_caught() -> None:
    def pooled(scores: Array) -> float:
        return PS(epsilon=EPSILON, delta=DELTA).calibrate(scores).threshold_

    assert too_many(count_violations(NormalFamily(), pooled, rng=0), DRAWS, DELTA)


def test_ps_satisfies_its_guarantee() -> None:
    family, method = NormalFamily(), PS(epsilon=0.2, delta=0.1)
    tasks = family.draw_tasks(DRAWS, rng=0)
    cuts = [method.calibrate(row).threshold_ for row in family.draw_scores(tasks, 100, rng=1)]
    errors = [float(family.error(t, cut)) for t, cut in zip(tasks, cuts, strict=True)]
    assert not too_many(sum(error > 0.2 for error in errors), DRAWS, 0.1)


WORST = TwoPointFamily(bad=ALPHA + 1e-9, miss=EPSILON + 1e-9)
# Its scores are 0 and 1. The warning about thresholds of 0 is irrelevant here.
ties_allowed = pytest.mark.filterwarnings("ignore:The threshold is 0.0")


def with_split(split: str) -> Guarantee:
    return Guarantee(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, split=split)


@ties_allowed
@pytest.mark.parametrize("split", ["tight", "joint"])
def test_a_split_fails_as_often_as_computed_on_its_worst_family(split: str) -> None:
    probability = WORST.probability_of_one(with_split(split), tasks=TASKS, examples=EXAMPLES)
    assert 0.5 * DELTA < probability <= DELTA
    count = count_violations(WORST, meta_ps(split), rng=0)
    assert stats.binomtest(count, DRAWS, probability).pvalue >= FALSE_ALARM


@ties_allowed
def test_forgetting_the_factor_of_the_tight_split_is_caught() -> None:
    forgetful = Level(ALPHA / 2, ALPHA)
    with mock.patch.object(Guarantee, "levels", (forgetful,)):
        probability = WORST.probability_of_one(with_split("tight"), tasks=500, examples=EXAMPLES)
        count = count_violations(WORST, meta_ps("tight", tasks=500), tasks=500, draws=500, rng=0)
    assert probability > 3 * DELTA  # so that 500 draws miss it for fewer than one in 1e15 seeds
    assert too_many(count, 500, DELTA)


@ties_allowed
def test_all_of_delta_at_every_level_of_the_joint_split_is_caught() -> None:
    @functools.cache
    def greedy(self: Guarantee, tasks: int) -> tuple[int, ...]:
        return tuple(allowed_errors(tasks, level.alpha_across, DELTA) for level in self.levels)

    size = {"tasks": 100, "examples": 20}
    with mock.patch.object(Guarantee, "allowed_low_thresholds", greedy):
        probability = WORST.probability_of_one(with_split("joint"), **size)
        count = count_violations(WORST, meta_ps("joint", **size), **size, draws=5000, rng=0)
    assert probability > 1.4 * DELTA
    assert too_many(count, 5000, DELTA)
    assert WORST.probability_of_one(with_split("joint"), **size) <= DELTA
