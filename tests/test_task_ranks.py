"""Ranks within tasks, and the cap that lets them hold for balanced tasks."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, MetaPS, allowed_errors
from metapac.evidence import ranks_within
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level
from tests.helpers import oracles


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=6),
    epsilon=st.sampled_from([0.05, 0.1, 0.3, 0.7]),
)
def test_ranks_within_tasks(sizes: list[int], epsilon: float) -> None:
    g = Guarantee(epsilon=epsilon, alpha=0.1, delta=0.1)
    expected = [
        [oracles.allowed_errors_in_task(n, epsilon, level) if n else -1 for level in JOINT_LEVELS]
        for n in sizes
    ]
    assert ranks_within(np.array(sizes), g).tolist() == expected


def misses(sizes: list[int], chances: list[float]) -> np.ndarray:
    """Return the distribution of the misses of a task, given examples and miss rate per class."""
    result = np.ones(1)
    for n, p in zip(sizes, chances, strict=True):
        result = np.convolve(result, stats.binom.pmf(np.arange(n + 1), n, p))
    return result


def chance_of_one(
    mass: np.ndarray, within: list[int], g: Guarantee, tasks: int, bad: float
) -> float:
    """Return the failure probability on tasks that are good, or bad with these misses.

    ``within`` is how many of them a task may have, at each level.
    """
    may_be_low: dict[int, int] = {}
    for misses_allowed, rank in zip(within, g.allowed_low_thresholds(tasks), strict=True):
        if misses_allowed >= 0:
            may_be_low[misses_allowed] = max(rank, may_be_low.get(misses_allowed, -1))
    shares = [bad * float(mass[k + 1 :].sum()) for k in sorted(may_be_low)]
    return oracles.grown_union_probability(
        tasks, shares, [may_be_low[k] for k in sorted(may_be_low)]
    )


@settings(max_examples=100)
@given(
    first=st.integers(1, 60),
    second=st.integers(1, 60),
    epsilon=st.sampled_from([0.05, 0.1, 0.2, 0.35]),
    share=st.integers(0, 100).map(lambda percent: Fraction(percent, 100)),
    tasks=st.integers(20, 300),
    split=st.sampled_from(["joint", "tight", 0.5]),
)
def test_balanced_tasks_violate_no_guarantee(
    first: int, second: int, epsilon: float, share: Fraction, tasks: int, split: str | float
) -> None:
    # The worst task has n * epsilon expected misses in all, divided between its two classes in any
    # way. Their number is then not binomial.
    total = (first + second) * (Fraction(epsilon) + Fraction(1, 10**9))
    of_first = min(Fraction(first), max(total - second, share * total))
    chances = [float(of_first / first), float((total - of_first) / second)]
    mass = misses([first, second], chances)
    g = Guarantee(epsilon=epsilon, alpha=0.2, delta=0.05, split=split)
    within = ranks_within(np.array([first + second]), g)[0].tolist()
    for k, level in zip(within, g.levels, strict=True):
        assert mass[: k + 1].sum() <= level.alpha_within * (1 + 1e-9)
    assert chance_of_one(mass, within, g, tasks, bad=0.2 + 1e-9) <= 0.05 * (1 + 1e-9)


def test_without_the_cap_balanced_tasks_violate_it() -> None:
    # 15 + 15 examples; one class is missed with probability 0.2, the other never.
    mass = misses([15, 15], [0.2, 0.0])
    tasks, level = 3000, Level(0.825, 0.1 * (1 - 0.825))
    with mock.patch.object(Guarantee, "levels", (level,)):
        g = Guarantee(
            epsilon=0.1, alpha=0.1, delta=1e-5, split="tight"
        )  # no split allows levels above 1/2, so the level is replaced
        capped = ranks_within(np.array([30]), g)[0].tolist()
        assert mass[: capped[0] + 1].sum() <= 0.825
        assert chance_of_one(mass, capped, g, tasks, bad=0.1) < 1e-5
        uncapped = [allowed_errors(30, 0.1, 0.825)]
        assert (capped, uncapped) == ([2], [4])
        assert mass[: uncapped[0] + 1].sum() > 0.825
        assert chance_of_one(mass, uncapped, g, tasks, bad=0.1) > 4e-5


def test_calibration_uses_the_cap() -> None:
    # 39 examples at .1: at level 1/2 three misses would be allowed, and 4 <= 3.9 is false.
    assert allowed_errors(39, 0.1, 0.5) == 3
    scores = np.arange(40.0 * 39).reshape(40, 39)
    result = MetaPS(epsilon=0.1, alpha=0.3, delta=0.1, split=0.5)
    result.calibrate(scores.ravel(), np.repeat(np.arange(40), 39))
    assert result.task_thresholds_.tolist() == scores[:, 2].tolist()


def test_each_class_has_its_own_miss_rate() -> None:
    rates = {"a": 0.1, "b": 0.3}
    g = Guarantee(epsilon=rates, alpha=0.1, delta=0.1, per_class=True)
    sizes, label = np.array([30, 90, 30, 0]), np.array([0, 1, 1, 0])
    expected = [
        [
            oracles.allowed_errors_in_task(n, rates["ab"[i]], level) if n else -1
            for level in JOINT_LEVELS
        ]
        for n, i in zip(sizes.tolist(), label.tolist(), strict=True)
    ]
    assert ranks_within(sizes, g, ("a", "b"), label).tolist() == expected
