"""Ranks of the joint split: valid, and as high as possible."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, allowed_errors
from metapac.fewshot.synthetic import TwoPointFamily
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, joint_ranks
from tests.helpers import oracles

FOUR = (0.02, 0.1, 0.25, 0.5)


# The chain is asked for at most delta (1 - 1e-9), and its rounding error is below 1e-10.
ROUNDING = 1e-8
level_sets = st.lists(st.sampled_from(JOINT_LEVELS), min_size=2, max_size=4, unique=True).map(
    sorted
)


def levels_of(within: list[float] | tuple[float, ...], alpha: float) -> tuple[Level, ...]:
    """Levels computed without ``Guarantee``: alpha (1 - t), in floating point."""
    return tuple(Level(each, alpha * (1 - each)) for each in within)


def shares_of(levels: tuple[Level, ...]) -> list[float]:
    return [level.alpha_across for level in levels]


def raised(ranks: tuple[int, ...], at: int) -> list[int]:
    return [rank + (j == at) for j, rank in enumerate(ranks)]


def full(tasks: int, levels: tuple[Level, ...], delta: float) -> tuple[int, ...]:
    """The negative control: all of delta at every level."""
    return tuple(allowed_errors(tasks, level.alpha_across, delta) for level in levels)


@settings(max_examples=60)
@given(
    tasks=st.integers(1, 7),
    within=level_sets,
    alpha=st.floats(0.05, 0.95),
    delta=st.floats(1e-4, 0.95),
)
def test_ranks_by_enumeration_of_all_counts(
    tasks: int, within: list[float], alpha: float, delta: float
) -> None:
    levels = levels_of(within, alpha)
    shares = [Fraction(each) for each in shares_of(levels)]
    ranks = joint_ranks(tasks, levels, delta)
    assert oracles.union_probability(tasks, shares, ranks) <= Fraction(delta)
    for j, rank in enumerate(ranks):
        if rank < tasks - 1:  # with all tasks the probability is 1
            up = oracles.union_probability(tasks, shares, raised(ranks, j))
            assert up > Fraction(delta) * (1 - Fraction(ROUNDING))


def test_all_levels_at_once_by_enumeration() -> None:
    # Counts of 4 tasks in 14 cells: 2380 vectors, added up as fractions.
    levels = Guarantee(epsilon=0.1, alpha=0.7, delta=0.3).levels
    shares = [Fraction(each) for each in shares_of(levels)]
    ranks = joint_ranks(4, levels, 0.3)
    assert max(ranks) >= 0
    exact = oracles.union_probability(4, shares, ranks)
    assert exact <= Fraction(3, 10)
    assert oracles.grown_union_probability(4, shares_of(levels), ranks) == pytest.approx(
        float(exact), rel=1e-12
    )


@given(
    tasks=st.integers(1, 6),
    cuts=st.lists(st.floats(0.05, 0.95), min_size=2, max_size=3, unique=True),
    data=st.data(),
)
def test_the_two_oracles_agree(tasks: int, cuts: list[float], data: st.DataObject) -> None:
    shares = sorted(cuts, reverse=True)
    ranks = [data.draw(st.integers(-1, tasks)) for _ in shares]
    exact = oracles.union_probability(tasks, [Fraction(each) for each in shares], ranks)
    result = oracles.grown_union_probability(tasks, shares, ranks)
    assert result == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


@settings(max_examples=60)
@given(
    tasks=st.integers(1, 3000),
    within=st.one_of(level_sets, st.just(list(JOINT_LEVELS))),
    alpha=st.floats(0.005, 0.3),
    delta=st.one_of(st.floats(1e-12, 0.95), st.sampled_from([1e-100, 1e-5, 0.05, 0.999])),
)
def test_ranks_are_valid_and_none_can_be_raised(
    tasks: int, within: list[float], alpha: float, delta: float
) -> None:
    levels = levels_of(within, alpha)
    ranks = joint_ranks(tasks, levels, delta)
    shares = shares_of(levels)
    assert oracles.grown_union_probability(tasks, shares, ranks) <= delta
    assert all(a >= b for a, b in pairwise(ranks))
    for j in (0, len(ranks) // 2, len(ranks) - 1):
        if ranks[j] < tasks - 1:
            up = oracles.grown_union_probability(tasks, shares, raised(ranks, j))
            assert up > delta * (1 - ROUNDING)


@pytest.mark.parametrize("tasks", [57, 500, 3000])
@pytest.mark.parametrize(("alpha", "delta"), [(0.1, 1e-5), (0.2, 0.05), (0.9, 0.3)])
def test_all_of_delta_at_every_level_is_caught(tasks: int, alpha: float, delta: float) -> None:
    levels = Guarantee(epsilon=0.1, alpha=alpha, delta=delta).levels
    greedy = full(tasks, levels, delta)
    if max(greedy) >= 0:
        assert oracles.grown_union_probability(tasks, shares_of(levels), greedy) > 1.2 * delta


def test_the_levels_are_those_of_the_theorem() -> None:
    # Above 1/2 the bound for balanced tasks fails; levels out of order form no chain.
    assert all(0 < a < b <= 0.5 for a, b in pairwise(JOINT_LEVELS))
    assert set(FOUR) <= set(JOINT_LEVELS)
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
    assert tuple(level.alpha_within for level in g.levels) == JOINT_LEVELS
    assert g.allowed_low_thresholds(500) == joint_ranks(500, g.levels, 1e-5)
    for level in g.levels:
        assert level.alpha_across == pytest.approx(0.1 * (1 - level.alpha_within), rel=1e-15)


@given(tasks=st.integers(1, 2000), alpha=st.floats(0.01, 0.9), delta=st.floats(1e-9, 0.9))
def test_one_level_is_the_tight_split(tasks: int, alpha: float, delta: float) -> None:
    tight = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split="tight")
    (level,) = tight.levels
    assert joint_ranks(tasks, (level,), delta) == tight.allowed_low_thresholds(tasks)
    assert tight.allowed_low_thresholds(tasks) == (
        allowed_errors(tasks, level.alpha_across, delta),
    )


@pytest.mark.parametrize(
    ("alpha", "delta"),
    [(0.1, 1e-5), (0.1, 0.05), (0.05, 1e-3), (0.2, 1e-9), (0.3, 0.5), (0.4, 0.01)],
)
def test_no_rank_is_below_that_of_four_levels_that_share_delta(alpha: float, delta: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta)
    counts = np.unique(np.r_[np.arange(1, 200), np.geomspace(200, 3000, 30).astype(int)])
    ranks = np.array([g.allowed_low_thresholds(int(tasks)) for tasks in counts])
    for level in FOUR:
        j = JOINT_LEVELS.index(level)
        old = allowed_errors(counts, g.levels[j].alpha_across, delta / 4)
        assert (ranks[:, j] >= old).all()
    # The joint split is feasible as soon as a single level is.
    first = allowed_errors(counts, g.levels[0].alpha_across, delta)
    np.testing.assert_array_equal(ranks.max(axis=1) >= 0, first >= 0)
    # What is feasible stays feasible with more tasks.
    assert (np.diff(ranks.max(axis=1) >= 0) >= 0).all()


@settings(max_examples=60)
@given(
    tasks=st.integers(5, 300),
    alpha=st.floats(0.05, 0.5),
    delta=st.floats(1e-6, 0.5),
    more=st.floats(1.0, 1.8),
)
def test_ranks_stay_valid_with_more_tasks_and_weaker_guarantees(
    tasks: int, alpha: float, delta: float, more: float
) -> None:
    # Valid ranks stay valid for more tasks, a larger alpha and a larger delta, which sites and
    # saved predictors rely on.
    levels = levels_of(JOINT_LEVELS, alpha)
    ranks = joint_ranks(tasks, levels, delta)
    larger = levels_of(JOINT_LEVELS, min(0.99, alpha * more))
    result = oracles.grown_union_probability(tasks, shares_of(levels), ranks)
    assert oracles.grown_union_probability(tasks + 1, shares_of(levels), ranks) <= result + 1e-15
    assert oracles.grown_union_probability(tasks, shares_of(larger), ranks) <= result + 1e-15
    feasible = max(ranks) >= 0
    for other in (
        joint_ranks(tasks + 1, levels, delta),
        joint_ranks(tasks, larger, delta),
        joint_ranks(tasks, levels, min(0.99, delta * more)),
    ):
        assert max(other) >= 0 or not feasible


@pytest.mark.parametrize(("delta", "tasks"), [(0.1, 23), (0.05, 29), (0.01, 45), (1e-5, 111)])
def test_the_minimum_number_of_tasks(delta: float, tasks: int) -> None:
    # The lowest level alone decides: (1 - alpha (1 - .01)) ** N <= delta. No valid rule has fewer
    # than log(delta) / log(1 - alpha) tasks, which is 22, 29, 44 and 110.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
    assert tasks == math.ceil(math.log(delta) / math.log(1 - 0.1 * 0.99))
    assert g.allowed_low_thresholds(tasks)[0] == 0
    assert max(g.allowed_low_thresholds(tasks - 1)) == -1


def test_one_task() -> None:
    # The count is 0 or 1; rank 0 is wrong with probability 1 - alpha (1 - .01) = .505.
    g = Guarantee(epsilon=0.1, alpha=0.5, delta=0.51)
    assert g.allowed_low_thresholds(1) == (0, *[-1] * 12)
    assert Guarantee(epsilon=0.1, alpha=0.5, delta=0.5).allowed_low_thresholds(1) == (-1,) * 13


def test_a_million_tasks() -> None:
    g, tasks = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5), 10**6
    ranks = g.allowed_low_thresholds(tasks)
    shares = np.array(shares_of(g.levels))
    upper = [allowed_errors(tasks, share, g.delta or 0) for share in shares]
    lower = [allowed_errors(tasks, share, 1e-5 / 13) for share in shares]
    assert all(a <= b <= c for a, b, c in zip(lower, ranks, upper, strict=True))
    by_level = stats.binom.cdf(ranks, tasks, shares)
    # One level alone is below the union, and Bonferroni is above it.
    assert by_level.max() < 1e-5 < by_level.sum()
    # Two neighbouring levels form a chain whose probability is a single sum. It must be within
    # delta for every pair.
    for j in (0, 6, 11):
        assert _two_levels(tasks, shares[j : j + 2], ranks[j : j + 2]) < 1e-5


def _two_levels(tasks: int, shares: np.ndarray, ranks: tuple[int, ...]) -> float:
    first = np.arange(ranks[0] + 1, int(tasks * shares[0] + 8 * math.sqrt(tasks * shares[0])))
    mass = stats.binom.pmf(first, tasks, shares[0])
    second = stats.binom.cdf(ranks[1], first, shares[1] / shares[0])
    return float(stats.binom.cdf(ranks[0], tasks, shares[0]) + mass @ second)


def test_a_chain_too_large_falls_back_on_equal_shares() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.5, delta=0.01)
    tasks = 10**8
    assert g.allowed_low_thresholds(tasks) == full(tasks, g.levels, 0.01 / 13)


@pytest.mark.parametrize("units", [None, 13, 20, 38])
def test_the_smallest_deltas(units: int | None) -> None:
    # In units of the smallest float a share of delta is rounded by up to a half, and never up.
    delta = 1e-300 if units is None else units * 5e-324
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
    for tasks in (10, 7500, 12_000):
        ranks = g.allowed_low_thresholds(tasks)
        assert ranks == full(tasks, g.levels, delta / 13 if units is None else units // 13 * 5e-324)
    assert max(ranks) >= 0
    assert (
        Guarantee(epsilon=0.1, alpha=0.1, delta=5e-324, split="tight").allowed_low_thresholds(
            12_000
        )[0]
        >= 0
    )


@pytest.mark.parametrize("delta", [0.99, 0.999999, 1 - 1e-12])
def test_deltas_near_one(delta: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
    for tasks in (1, 2, 40, 300):
        ranks = g.allowed_low_thresholds(tasks)
        assert oracles.grown_union_probability(tasks, shares_of(g.levels), ranks) <= delta
        assert ranks[0] >= 0


def test_ranks_are_cached() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.123, delta=1e-5)
    before = joint_ranks.cache_info()
    assert g.allowed_low_thresholds(333) is g.allowed_low_thresholds(333)
    other = Guarantee(epsilon=0.4, alpha=0.123, delta=1e-5, min_examples=3)  # the same levels
    assert other.allowed_low_thresholds(333) is g.allowed_low_thresholds(333)
    after = joint_ranks.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 3)
    assert Guarantee(epsilon=0.1, alpha=0.123, delta=2e-5).allowed_low_thresholds(
        333
    ) != g.allowed_low_thresholds(333)


# The converse: on the worst possible tasks the joint split violates its guarantee with exactly the
# probability that the ranks were chosen for, once tasks are large enough to attain the levels.
def test_the_joint_split_cannot_be_loosened() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    worst = TwoPointFamily(bad=g.alpha + 1e-12, miss=0.1 + 1e-12)
    ranks, shares = g.allowed_low_thresholds(400), shares_of(g.levels)
    claimed = oracles.grown_union_probability(400, shares, ranks)
    probability = worst.probability_of_one(g, tasks=400, examples=10**9)
    assert probability == pytest.approx(claimed, rel=1e-3)
    assert 0.95 * 0.05 < probability <= 0.05
