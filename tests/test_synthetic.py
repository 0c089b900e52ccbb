"""The oracles themselves: closed forms against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import FALSE_ALARM
from scipy import stats

from metapac.tasks.synthetic import Family, NormalFamily, TiedFamily, TwoPointFamily

FAMILIES: list[tuple[Family, float]] = [
    (NormalFamily(), 2.0),
    (TiedFamily(), 0.6),
    (TiedFamily(), 0.55),
    (TwoPointFamily(0.3, 0.2), 0.5),
    (TwoPointFamily(0.3, 0.2), 0.0),
    (TwoPointFamily(0.3, 0.2), 2.0),
]


def agrees(count: int, draws: int, chance: float) -> bool:
    return bool(stats.binomtest(count, draws, chance).pvalue >= FALSE_ALARM)


@pytest.mark.parametrize(("family", "cut"), FAMILIES)
def test_error_is_the_chance_to_fall_below(family: Family, cut: float) -> None:
    tasks = family.draw_tasks(5, rng=1)
    scores = family.draw_scores(tasks, 100_000, rng=2)
    for row, error in zip(scores, family.error(tasks, cut), strict=True):
        assert agrees(int((row < cut).sum()), len(row), float(error))


@pytest.mark.parametrize(("family", "cut"), FAMILIES)
@pytest.mark.parametrize("epsilon", [0.05, 0.15, 0.3])
def test_broken_is_the_share_of_tasks_above_epsilon(
    family: Family, cut: float, epsilon: float
) -> None:
    errors = family.error(family.draw_tasks(100_000, rng=3), cut)
    assert agrees(int((errors > epsilon).sum()), 100_000, family.broken(cut, epsilon))


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
