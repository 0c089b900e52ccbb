"""Do the promises hold? Simulation on families of known error, with negative controls.

Each test wrongly fails once in a million seeds; the controls show that the simulation would see a
method that does not keep its word.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from oracles import FALSE_ALARM, too_many
from scipy import stats

from metapac import PS, Guarantee, MetaPS
from metapac.guarantee import Level
from metapac.tasks.synthetic import Array, Family, NormalFamily, TiedFamily, TwoPointFamily

G = Guarantee(epsilon=0.2, alpha=0.2, delta=0.1)
TASKS, EXAMPLES, DRAWS = 60, 40, 2000


def count_broken(
    family: Family, calibrate: Callable[[Array], float], *, tasks: int = TASKS, rng: int
) -> int:
    """In how many of the draws does the threshold break more than alpha of all tasks?"""
    broken = 0
    for seed in np.random.SeedSequence(rng).spawn(DRAWS):
        generator = np.random.default_rng(seed)
        scores = family.draw_scores(family.draw_tasks(tasks, generator), EXAMPLES, generator)
        broken += family.broken(calibrate(scores.ravel()), G.epsilon) > G.alpha
    return broken


def meta_ps(split: str | float, *, tasks: int = TASKS) -> Callable[[Array], float]:
    method = MetaPS(epsilon=G.epsilon, alpha=G.alpha, delta=G.delta, split=split)
    names = np.repeat(np.arange(tasks), EXAMPLES)
    return lambda scores: method.calibrate(scores, names).threshold_


@pytest.mark.parametrize("split", ["even", "tight", 0.3, "adaptive"])
@pytest.mark.parametrize(
    "family",
    [NormalFamily(spread=0.5), NormalFamily(spread=0.05), TiedFamily()],
    ids=["spread out", "nearly alike", "tied"],
)
def test_meta_ps_keeps_its_promise(family: Family, split: str | float) -> None:
    assert not too_many(count_broken(family, meta_ps(split), rng=0), DRAWS, G.delta)


def test_pooling_is_caught() -> None:
    def pooled(scores: Array) -> float:
        return PS(epsilon=G.epsilon, delta=G.delta).calibrate(scores).threshold_

    assert too_many(count_broken(NormalFamily(), pooled, rng=0), DRAWS, G.delta)


def test_ps_keeps_its_own_promise() -> None:
    family, method = NormalFamily(), PS(epsilon=0.2, delta=0.1)
    tasks = family.draw_tasks(DRAWS, rng=0)
    cuts = [method.calibrate(row).threshold_ for row in family.draw_scores(tasks, 100, rng=1)]
    errors = [float(family.error(t, cut)) for t, cut in zip(tasks, cuts, strict=True)]
    assert not too_many(sum(error > 0.2 for error in errors), DRAWS, 0.1)


WORST = TwoPointFamily(bad=G.alpha + 1e-9, miss=G.epsilon + 1e-9)


def test_the_tight_split_breaks_as_often_as_computed_on_its_worst_family() -> None:
    (level,) = G.levels
    chance = WORST.chance_of_one(level, G.epsilon, TASKS, EXAMPLES)
    assert 0.5 * G.delta < chance <= G.delta
    count = count_broken(WORST, meta_ps("tight"), rng=0)
    assert stats.binomtest(count, DRAWS, chance).pvalue >= FALSE_ALARM


def test_forgetting_the_factor_of_the_tight_split_is_caught() -> None:
    (level,) = G.levels
    forgetful = Level(level.alpha_within, G.alpha, G.delta)
    assert WORST.chance_of_one(forgetful, G.epsilon, tasks=500, examples=EXAMPLES) > 2 * G.delta
    with mock.patch.object(Guarantee, "levels", (forgetful,)):
        count = count_broken(WORST, meta_ps("tight", tasks=500), tasks=500, rng=0)
    assert too_many(count, DRAWS, G.delta)
