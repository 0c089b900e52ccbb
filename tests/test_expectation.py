"""Guarantees in expectation (delta=None): on a new task the sets miss more than epsilon with
probability at most alpha, over the calibration tasks too.

Everything here is a sum of binomial probabilities; nothing is sampled.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, InfeasibleGuarantee, MetaPS, load, plan
from metapac.evidence import ranks_within
from metapac.ranks import expectation_rank

percentages = st.integers(0, 100).map(lambda percent: percent / 100)


def rank_of(g: Guarantee, tasks: int) -> int:
    (rank,) = g.allowed_low_thresholds(tasks)
    return rank


def violation(g: Guarantee, tasks: int, n: int, kinds: list[Any], rank: int) -> float:
    """P(the sets miss more than epsilon on a new task), where scores are 0, 1, 2, ...

    ``kinds`` are the kinds of tasks: how often each occurs, and the probabilities that one of its
    scores is below 1, below 2, ... The threshold is at least v if at most ``rank`` of the task
    thresholds are below v. With threshold v, the sets miss too often on a kind whose scores are
    below v with probability above epsilon.
    """
    within = int(ranks_within(np.array([n]), g)[0, 0])
    if within < 0 or rank < 0:
        return 0.0
    values = range(1, len(kinds[0][1]) + 1)
    at_least = []
    for v in values:
        low = sum(share * stats.binom.sf(within, n, below[v - 1]) for share, below in kinds)
        at_least.append(float(stats.binom.cdf(rank, tasks, min(low, 1.0))))
    masses = [a - b for a, b in zip(at_least, [*at_least[1:], 0.0], strict=True)]
    return sum(
        mass * math.fsum(share for share, below in kinds if below[v - 1] > g.miss_rate)
        for v, mass in zip(values, masses, strict=True)
    )


@given(
    tasks=st.integers(1, 120),
    n=st.sampled_from([1, 5, 14, 29, 80]),
    alpha=st.sampled_from([0.05, 0.1, 0.3, 0.6]),
    epsilon=st.sampled_from([0.1, 0.3]),
    bad=percentages,
    miss=percentages,
    split=st.sampled_from(["joint", "even", 0.01, 0.5]),
)
def test_two_kinds_of_tasks(
    tasks: int, n: int, alpha: float, epsilon: float, bad: float, miss: float, split: str | float
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=None, split=split)
    kinds = [(1 - bad, [0.0]), (bad, [miss])]
    assert violation(g, tasks, n, kinds, rank_of(g, tasks)) <= alpha


@given(
    tasks=st.integers(10, 120),
    n=st.sampled_from([14, 29, 80]),
    alpha=st.sampled_from([0.1, 0.3]),
    shares=st.tuples(percentages, percentages),
    steps=st.tuples(*[st.tuples(percentages, percentages).map(sorted)] * 2),
)
def test_three_kinds_of_tasks_and_three_scores(
    tasks: int, n: int, alpha: float, shares: tuple[float, float], steps: Any
) -> None:
    first, second = shares[0], (1 - shares[0]) * shares[1]
    kinds = [(first, steps[0]), (second, steps[1]), (1 - first - second, [0.0, 0.0])]
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    assert violation(g, tasks, n, kinds, rank_of(g, tasks)) <= alpha + 1e-12


def worst(rank: int, tasks: int, attained: float) -> float:
    """P(the sets miss more than epsilon on a new task) on a family that makes the bound tight.

    Each task has a number z. A share of its scores just above epsilon equals z, and the others are
    higher than the z of every task. The threshold of the task is z, except with probability
    ``attained``, when too few of its scores are z. On a new task the sets miss too often if its z
    is below the (rank + 1)-th lowest threshold. Among tasks + 1 thresholds, that of the new task
    included, all orders are equally likely, so the threshold of the new task is that low with
    probability (rank + 1) / (tasks + 1). Its z is that low more often, because the threshold is z
    only with probability 1 - attained.
    """
    return (rank + 1) / (tasks + 1) / (1 - attained)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25, 0.5])
def test_the_rank_is_valid_and_the_next_is_not(alpha: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    sizes = np.arange(1, 2000)
    attained = stats.binom.cdf(ranks_within(sizes, g)[:, 0], sizes, 0.1).max()
    assert 0.99 * alpha / 2 < attained <= alpha / 2
    caught = 0
    for tasks in range(1, 400):
        rank = rank_of(g, tasks)
        assert worst(rank, tasks, attained) <= alpha
        caught += worst(rank + 1, tasks, attained) > alpha
    assert caught > 0.97 * 399  # the negative control; attained is slightly below the level


def test_numbers_are_the_decimals_that_they_print_as() -> None:
    # As a double, .3 is a little below three tenths, and 200 times .3 x .85 a little below 51.
    assert Fraction(0.3) * (1 - Fraction(0.15)) * 200 < 51
    assert Guarantee(epsilon=0.1, alpha=0.3, delta=None).allowed_low_thresholds(199) == (50,)
    assert expectation_rank(199, Fraction(51, 200)) == 50
    assert Guarantee(epsilon=0.1, alpha=0.2, delta=None, split="even").allowed_low_thresholds(
        9
    ) == (0,)


@pytest.mark.parametrize(("alpha", "tasks"), [(0.1, 10), (0.05, 20), (0.2, 5), (0.3, 3)])
def test_the_minimum_number_of_tasks(alpha: float, tasks: int) -> None:
    # floor(alpha (1 - alpha / 2) (N + 1)) >= 1; at alpha = .1 from N + 1 = 10.53 on.
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    assert (rank_of(g, tasks), rank_of(g, tasks - 1)) == (0, -1)
    need = plan(epsilon=0.1, alpha=alpha, delta=None)
    assert (need.tasks, need.examples_per_task) == (
        tasks,
        math.ceil(math.log(alpha / 2) / math.log(0.9)),
    )


def test_ten_tasks_are_enough(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 40))
    names = np.repeat([f"site {i}" for i in range(10)], 40)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=None).calibrate(scores.ravel(), names)
    assert method.threshold_ == np.sort(scores, axis=1)[:, 0].min()
    assert method.promise_.startswith("On average over the draw of the 10 calibration tasks, the")
    assert "gives no confidence for this one" in method.promise_
    assert "confidence 9" not in method.promise_
    method.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert again.delta is None
    assert again.promise_ == method.promise_
    more = np.random.default_rng(1).normal(size=(9, 40))
    ids = np.repeat([f"new {i}" for i in range(9)], 40)
    whole = MetaPS(epsilon=0.1, alpha=0.1, delta=None)
    whole.calibrate(np.r_[scores.ravel(), more.ravel()], np.r_[names, ids])
    assert again.add(more.ravel(), ids).threshold_ == whole.threshold_
    sent = {name: method.task_threshold(row) for name, row in zip(names[::40], scores, strict=True)}
    assert MetaPS(epsilon=0.1, alpha=0.1, delta=None).combine(sent).threshold_ == method.threshold_


def test_nine_tasks_are_too_few() -> None:
    scores, names = np.random.default_rng(0).normal(size=9 * 40), np.repeat(np.arange(9), 40)
    with pytest.raises(InfeasibleGuarantee) as caught:
        MetaPS(epsilon=0.1, alpha=0.1, delta=None).calibrate(scores, names)
    assert str(caught.value) == (
        "epsilon=0.1, alpha=0.1, delta=None cannot be guaranteed with split='joint': this "
        "takes 10 tasks with at least 29 examples each, but there are 9 tasks. Options: add 1 task "
        "with at least 29 examples each; or settle for alpha=0.106; or pass "
        "on_infeasible='trivial' to keep every label."
    )


@given(tasks=st.integers(1, 10**6), alpha=st.floats(1e-6, 0.99), split=st.floats(1e-6, 0.5))
def test_ranks_never_exceed_the_share(tasks: int, alpha: float, split: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None, split=split)
    share = Fraction(repr(alpha)) * (1 - Fraction(repr(split)))
    rank = rank_of(g, tasks)
    assert rank + 1 <= share * (tasks + 1) < rank + 2
